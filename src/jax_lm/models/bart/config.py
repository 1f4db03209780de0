"""What shapes a BART, and the published sizes."""

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from jax_lm.errors import UsageError
from jax_lm.models.base import ModelConfig, TokenIds, divided
from jax_lm.models.layers.activations import Activation
from jax_lm.models.start_token import refuse_ordinary_start
from jax_lm.types import ModelKind


class StackShape(NamedTuple):
    """Shape of one of the two stacks."""

    num_layers: int
    num_heads: int
    mlp_dim: int


@dataclass(frozen=True, kw_only=True)
class BartConfig(ModelConfig):
    """Shape of a BART; the defaults are the base model."""

    kind: ClassVar[ModelKind] = "encoder-decoder"
    family: Literal["bart"] = "bart"
    """Model family."""
    context_length: int = 1024
    """Longest input and longest output, in tokens."""
    num_layers: int = 6
    """Number of blocks of the encoder."""
    num_decoder_layers: int | None = None
    """Number of blocks of the decoder; None is num_layers."""
    num_heads: int = 12
    """Attention heads a block of the encoder."""
    num_decoder_heads: int | None = None
    """Attention heads a block of the decoder; None is num_heads."""
    mlp_dim: int | None = None
    """Width of the encoder's feed-forward layer; None is 4 * embed_dim."""
    decoder_mlp_dim: int | None = None
    """Width of the decoder's feed-forward layer; None is the encoder's."""
    activation: Activation = "gelu"
    """Of the feed-forward layers."""
    scale_embedding: bool = False
    """Multiply token embeddings by the square root of embed_dim."""
    dropout: float = 0.0
    """Rate on embeddings and residual branches."""
    attention_dropout: float = 0.0
    """Rate on attention weights."""
    activation_dropout: float = 0.0
    """Rate within the feed-forward layers."""
    pad_id: int | None = None
    """Id of the padding token, whose embedding starts at zero; in a new model the
    tokenizer's."""
    decoder_start_id: int | None = None
    """Id that decoding starts from; None takes the tokenizer's EOS."""

    def __post_init__(self) -> None:
        """Refuse shapes that cannot be built."""
        super().__post_init__()
        for shape in (self.encoder, self.decoder):
            divided(self, shape.num_heads)

    @property
    def attention_widths(self) -> tuple[int, ...]:
        """Layers * heads * head_dim of each stack."""
        return self.num_layers * self.embed_dim, self.decoder.num_layers * self.embed_dim

    @property
    def encoder(self) -> StackShape:
        """Shape of the encoder."""
        return StackShape(self.num_layers, self.num_heads, self.mlp_dim or 4 * self.embed_dim)

    @property
    def decoder(self) -> StackShape:
        """Shape of the decoder."""
        encoder = self.encoder
        return StackShape(
            self.num_decoder_layers or encoder.num_layers,
            self.num_decoder_heads or encoder.num_heads,
            self.decoder_mlp_dim or encoder.mlp_dim,
        )

    def with_tokens(self, ids: TokenIds) -> "BartConfig":
        """With the vocabulary and the padding id, and outputs that begin with EOS, as published.

        Raises:
            UsageError: nothing says what outputs begin with, or it is an ordinary token.
        """
        refuse_ordinary_start(self.decoder_start_id, ids)
        start = ids.eos if self.decoder_start_id is None else self.decoder_start_id
        if start is None:
            raise UsageError(
                "the tokenizer has no end-of-sequence token, with which BART's outputs begin: "
                "train one with the special token </s>, or set --model.decoder-start-id"
            )
        pad = self.pad_id if ids.pad is None else ids.pad
        filled = super().with_tokens(ids)
        return dataclasses.replace(filled, pad_id=pad, decoder_start_id=start)


def _published(num_layers: int, num_heads: int, embed_dim: int) -> BartConfig:
    return BartConfig(
        vocab_size=50265,
        num_layers=num_layers,
        num_heads=num_heads,
        embed_dim=embed_dim,
        dropout=0.1,
        attention_dropout=0.1,
        activation_dropout=0.1,
    )


PRESETS = {
    "bart-base": _published(6, 12, 768),
    "bart-large": _published(12, 16, 1024),
}
"""The published sizes; the special ids come from the tokenizer."""

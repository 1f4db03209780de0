"""What shapes a T5, and the published sizes."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from jax_lm.errors import UsageError
from jax_lm.models.base import ModelConfig, TokenIds
from jax_lm.models.layers.activations import Activation
from jax_lm.models.start_token import refuse_ordinary_start
from jax_lm.types import ModelKind


@dataclass(frozen=True, kw_only=True)
class T5Config(ModelConfig):
    """Shape of a T5; the defaults are the base model of the paper."""

    kind: ClassVar[ModelKind] = "encoder-decoder"
    family: Literal["t5"] = "t5"
    """Model family."""
    context_length: int = 512
    """Length of a training row's input, in tokens; the model itself knows no longest sequence."""
    num_decoder_layers: int | None = None
    """Number of the decoder's blocks; None: as many as the encoder has."""
    head_dim: int = 64
    """Width of one head; the heads together need not be as wide as the residual stream."""
    mlp_dim: int = 3072
    """Width of the feed-forward layer."""
    activation: Activation = "relu"
    """Of the feed-forward layer, or of its gate."""
    gated: bool = False
    """Whether a second projection gates the feed-forward layer, as in version 1.1."""
    num_buckets: int = 32
    """Buckets of distances that share a position bias."""
    max_distance: int = 128
    """Distance, in tokens, from which on all share the last bucket."""
    norm_epsilon: float = 1e-6
    """Added to the mean square in RMSNorm."""
    tied: bool = True
    """Whether the output matrix is the token embedding; version 1.1 has one of its own."""
    scale_output: bool = True
    """Whether hidden states are divided by sqrt(embed_dim) before the output matrix; not in
    version 1.1."""
    init_std: float = 1.0
    """Standard deviation of initial token embeddings; that of every other matrix is this over the
    root of what its sums run over."""
    decoder_start_id: int | None = None
    """Token id that every output begins with; None takes the tokenizer's padding."""

    def __post_init__(self) -> None:
        """Refuse shapes that cannot be built."""
        super().__post_init__()
        if self.num_buckets < 4:
            raise UsageError(f"num_buckets is {self.num_buckets}, expected 4 or more")
        if self.max_distance <= self.num_buckets // 2:
            raise UsageError(
                f"max_distance is {self.max_distance}, expected more than half of num_buckets, "
                f"{self.num_buckets // 2}"
            )

    @property
    def decoder_layers(self) -> int:
        """Number of the decoder's blocks."""
        return self.num_decoder_layers or self.num_layers

    @property
    def attention_widths(self) -> tuple[int, ...]:
        """Layers * heads * head_dim of each stack."""
        width = self.num_heads * self.head_dim
        return self.num_layers * width, self.decoder_layers * width

    def with_tokens(self, ids: TokenIds) -> "T5Config":
        """With the vocabulary, and outputs that begin with padding, as published.

        Raises:
            UsageError: they are to begin with an ordinary token of the tokenizer.
        """
        filled = super().with_tokens(ids)
        refuse_ordinary_start(self.decoder_start_id, ids)
        if self.decoder_start_id is not None:
            return filled
        start = ids.pad if ids.pad is not None else ids.eos
        return replace(filled, decoder_start_id=0 if start is None else start)


_BASE_1_1 = T5Config(
    mlp_dim=2048, activation="gelu_tanh", gated=True, tied=False, scale_output=False
)

PRESETS = {
    "t5-small": T5Config(num_layers=6, num_heads=8, embed_dim=512, mlp_dim=2048),
    "t5-base": T5Config(),
    "t5-large": T5Config(num_layers=24, num_heads=16, embed_dim=1024, mlp_dim=4096),
    "t5-3b": T5Config(num_layers=24, num_heads=32, embed_dim=1024, head_dim=128, mlp_dim=16_384),
    "t5-11b": T5Config(num_layers=24, num_heads=128, embed_dim=1024, head_dim=128, mlp_dim=65_536),
    "t5-v1_1-small": replace(_BASE_1_1, num_layers=8, num_heads=6, embed_dim=512, mlp_dim=1024),
    "t5-v1_1-base": _BASE_1_1,
    "t5-v1_1-large": replace(_BASE_1_1, num_layers=24, num_heads=16, embed_dim=1024, mlp_dim=2816),
    "t5-v1_1-xl": replace(_BASE_1_1, num_layers=24, num_heads=32, embed_dim=2048, mlp_dim=5120),
    "t5-v1_1-xxl": replace(_BASE_1_1, num_layers=24, num_heads=64, embed_dim=4096, mlp_dim=10_240),
}
"""The published sizes (Raffel et al. 2020, arXiv:1910.10683, and version 1.1); Flan-T5 and the
models adapted to language modelling have those of version 1.1."""

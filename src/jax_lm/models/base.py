"""What every family shares: its configuration's outline, the token table, the output matrix."""

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from jax_lm.errors import JaxLMError, UsageError
from jax_lm.models.layers.init import normal
from jax_lm.models.layers.low_rank import merged
from jax_lm.types import ModelKind

Config = TypeVar("Config", bound="ModelConfig")
VOCABULARY_MULTIPLE = 128
"""Rows of embeddings and output matrices come in this multiple, so that any vocabulary can be split
over devices and fills their matrix units."""


class TokenIds(NamedTuple):
    """What a model may need to know of its tokenizer."""

    vocab_size: int
    pad: int | None = None
    bos: int | None = None
    eos: int | None = None


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """What the configuration of every family has; the families add the rest."""

    kind: ClassVar[ModelKind] = "decoder"
    family: str
    """Model family."""
    vocab_size: int | None = None
    """Number of token ids; None takes the tokenizer's."""
    context_length: int = 1024
    """Longest sequence, in tokens; also the length of a training row."""
    num_layers: int = 12
    """Number of blocks (of each stack, in an encoder-decoder)."""
    num_heads: int = 12
    """Attention heads a block."""
    embed_dim: int = 768
    """Width of the residual stream."""
    dropout: float = 0.0
    """Rate on embeddings, attention weights and residual branches."""
    init_std: float = 0.02
    """Standard deviation of initial weights."""

    def __post_init__(self) -> None:
        """Refuse counts below 1, and rates and deviations that are none."""
        for name in (field.name for field in dataclasses.fields(self)):
            value = getattr(self, name)
            least = 0 if name.endswith("_id") else 1
            if isinstance(value, int) and not isinstance(value, bool) and value < least:
                raise UsageError(f"{name} is {value}, expected {least} or more")
            if name.endswith("dropout") and not 0 <= value < 1:
                raise UsageError(f"{name} is {value}, expected a rate from 0 to below 1")
            if name in ("init_std", "norm_epsilon") and not 0 < value < math.inf:
                raise UsageError(f"{name} is {value}, expected a number above 0")

    @property
    def padded_vocab_size(self) -> int:
        """Rows of embeddings and output matrices: the vocabulary, rounded up."""
        assert self.vocab_size is not None, "vocab_size comes from the tokenizer"
        return -(-self.vocab_size // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE

    @property
    def drops(self) -> bool:
        """Whether anything is dropped at random in training."""
        return any(value for name, value in vars(self).items() if name.endswith("dropout"))

    @property
    def attention_widths(self) -> tuple[int, ...]:
        """Layers * heads * head_dim of each stack."""
        return (self.num_layers * self.embed_dim,)

    def with_tokens(self: Config, ids: TokenIds) -> Config:
        """This configuration with what it does not say filled in from the tokenizer.

        Raises:
            JaxLMError: it has fewer ids than the tokenizer.
        """
        size = ids.vocab_size if self.vocab_size is None else self.vocab_size
        if size < ids.vocab_size:
            raise JaxLMError(
                f"the model has {size:,} token ids, the tokenizer {ids.vocab_size:,}: leave "
                "--model.vocab-size out, or take another tokenizer"
            )
        return dataclasses.replace(self, vocab_size=size)


def divided(config: ModelConfig, heads: int) -> int:
    """Width of one of ``heads`` heads.

    Raises:
        UsageError: they do not divide the width.
    """
    if config.embed_dim % heads:
        raise UsageError(
            f"embed_dim {config.embed_dim} is not a multiple of num_heads {config.num_heads}"
        )
    return config.embed_dim // heads


class Unembedding(eqx.Module):
    """The output matrix: logits = hidden @ weight.T + bias, for the ids that exist."""

    weight: Float[Array, "vocab embed"] = eqx.field(converter=merged)
    bias: Float[Array, "vocab"] | None
    vocab_size: int = eqx.field(static=True)
    """Ids that exist; what lies beyond is padding of the matrix."""

    def logits(self, hidden: Float[Array, "*rest embed"]) -> Float[Array, "*rest vocab"]:
        """Float32 whatever the dtype of ``hidden``; -inf for ids that do not exist."""
        logits = jnp.einsum(
            "...e,ve->...v", hidden, self.weight, preferred_element_type=jnp.float32
        )
        rest = tuple(range(hidden.ndim - 1))
        if self.bias is not None:
            logits = logits + jnp.expand_dims(self.bias.astype(jnp.float32), rest)
        if self.vocab_size < self.weight.shape[0]:
            exists = jnp.arange(self.weight.shape[0]) < self.vocab_size
            logits = jnp.where(jnp.expand_dims(exists, rest), logits, -jnp.inf)
        return logits


def token_table(
    key: Key[Array, ""],
    config: ModelConfig,
    standard_deviation: float,
    *,
    width: int | None = None,
) -> Float[Array, "vocab embed"]:
    """Random rows for the ids that exist, zeros for the padding.

    It stays zero: nothing reads it and no gradient reaches it. ``width`` None is that of the
    residual stream.
    """
    rows = normal(key, (config.padded_vocab_size, width or config.embed_dim), standard_deviation)
    exists = jnp.arange(config.padded_vocab_size) < (config.vocab_size or 0)
    return jnp.where(exists[:, None], rows, 0.0)

"""Shape of a LLaMA and of the models built like it."""

from dataclasses import dataclass, field
from typing import Literal

from jax_lm.errors import UsageError
from jax_lm.models.base import ModelConfig, divided
from jax_lm.models.layers.rotary import RotaryConfig

MLP_MULTIPLE = 256


@dataclass(frozen=True, kw_only=True)
class LlamaConfig(ModelConfig):
    """Shape of a LLaMA or of a model built like it; the defaults are the first LLaMA 7B."""

    family: Literal["llama"] = "llama"
    """Model family."""
    variant: Literal["llama", "mistral", "qwen2", "qwen3"] = "llama"
    """Which of them: qwen2 has biases on queries, keys and values, qwen3 norms of queries and keys;
    also the ``model_type`` that an exported config.json has."""
    context_length: int = 2048
    """Longest sequence, in tokens; also the length of a training row."""
    num_layers: int = 32
    """Number of blocks."""
    num_heads: int = 32
    """Attention heads of queries a block."""
    num_kv_heads: int | None = None
    """Attention heads of keys and values a block; None is ``num_heads``."""
    embed_dim: int = 4096
    """Width of the residual stream."""
    head_dim: int | None = None
    """Width of a head; None is embed_dim / num_heads."""
    mlp_dim: int | None = None
    """Width of the feed-forward layer; None is 8/3 * embed_dim, rounded up to a multiple of 256."""
    dropout: float = 0.0
    """Rate on attention weights, the only place that these models have."""
    tied: bool = False
    """Whether the output matrix is the token embedding."""
    attention_bias: bool = False
    """Biases in all four projections of the attention (llama, qwen3)."""
    window: int | None = None
    """Positions that each one sees at most, itself included; None: all before it. Not for llama."""
    norm_epsilon: float = 1e-6
    """Added to the mean square in RMSNorm."""
    rotary: RotaryConfig = field(default_factory=RotaryConfig)
    """Rotary positions."""

    def __post_init__(self) -> None:
        """Refuse shapes that cannot be built, and what no such model has."""
        super().__post_init__()
        num_heads, num_kv_heads, head_dim = self.heads
        if num_heads % num_kv_heads:
            raise UsageError(
                f"num_heads {num_heads} is not a multiple of num_kv_heads {num_kv_heads}"
            )
        if head_dim % 2:
            raise UsageError(
                f"head_dim is {head_dim}, expected an even number: channels turn in pairs"
            )
        if self.window is not None and self.variant == "llama":
            raise UsageError("window: the variant llama has none; --model.variant mistral does")
        if self.attention_bias and self.variant not in ("llama", "qwen3"):
            raise UsageError(
                f"attention_bias: the variant {self.variant} does not have that choice"
            )

    @property
    def heads(self) -> tuple[int, int, int]:
        """Number of heads of queries, number of those of keys and values, width of a head."""
        width = divided(self, self.num_heads)
        return self.num_heads, self.num_kv_heads or self.num_heads, self.head_dim or width

    @property
    def attention_widths(self) -> tuple[int, ...]:
        """Layers * heads * head_dim."""
        num_heads, _, head_dim = self.heads
        return (self.num_layers * num_heads * head_dim,)

    @property
    def feed_forward_dim(self) -> int:
        """Width of the feed-forward layer."""
        return self.mlp_dim or default_mlp_dim(self.embed_dim)


def default_mlp_dim(embed_dim: int) -> int:
    """Two thirds of four times the width, rounded up, as in LLaMA's reference code."""
    return -(-8 * embed_dim // (3 * MLP_MULTIPLE)) * MLP_MULTIPLE

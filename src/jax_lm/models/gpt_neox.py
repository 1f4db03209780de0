"""GPT-NeoX (Black et al. 2022, arXiv:2204.06745) and Pythia (Biderman et al. 2023, 2304.01373).

Notable features: rotary positions on a quarter of each head's channels, a channel of the first
half turned with its counterpart in the second; attention and feed-forward side by side, each on a
norm of its own (or one after the other); biases; an output matrix of its own.
"""

import math
from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int, Key

from jax_lm.errors import UsageError
from jax_lm.models.base import ModelConfig, Unembedding, divided, token_table
from jax_lm.models.decoder import Decoder
from jax_lm.models.layers.activations import Activation
from jax_lm.models.layers.dropout import DropoutKey, dropout, split_key
from jax_lm.models.layers.embedding import lookup
from jax_lm.models.layers.feed_forward import FeedForward
from jax_lm.models.layers.init import Initialization, residual_std
from jax_lm.models.layers.kv_cache import LayerCache, LayerCaches
from jax_lm.models.layers.mask import AttentionMask
from jax_lm.models.layers.norm import LayerNorm
from jax_lm.models.layers.rotary import Rotation, frequencies, rotation
from jax_lm.models.layers.rotary_attention import RotaryAttention, zero_biases
from jax_lm.models.layers.stack import RematPolicy, apply_blocks, stack


@dataclass(frozen=True, kw_only=True)
class GPTNeoXConfig(ModelConfig):
    """Shape of a GPT-NeoX; the defaults are Pythia 160M's, but for the context."""

    family: Literal["gpt_neox"] = "gpt_neox"
    """Model family."""
    rotary_fraction: float = 0.25
    """Share of each head's channels that are turned by their position."""
    rotary_base: float = 10_000.0
    """Base of the rotary frequencies."""
    parallel_residual: bool = True
    """Attention and feed-forward side by side; false: the second sees what the first added."""
    mlp_dim: int | None = None
    """Width of the feed-forward layer; None is 4 * embed_dim."""
    activation: Activation = "gelu"
    """Of the feed-forward layer."""
    attention_bias: bool = True
    """Biases in the attention's projections."""
    tied: bool = False
    """Use the token embedding as the output matrix."""
    norm_epsilon: float = 1e-5
    """Added to the variance in LayerNorm."""
    initialization: Initialization = "published"
    """Standard deviations of initial weights. published: 2/(num_layers * sqrt(embed_dim)) for
    projections back into the residual stream, sqrt(2/(5 * embed_dim)) for the others; normal:
    init_std for all."""

    def __post_init__(self) -> None:
        """Refuse shapes that cannot be built."""
        super().__post_init__()
        if self.rotary_dim % 2 or not 0 < self.rotary_dim <= self.head_dim:
            raise UsageError(
                f"rotary_fraction {self.rotary_fraction} of a head of {self.head_dim} channels "
                f"is {self.rotary_dim}, expected an even number from 2 to {self.head_dim}"
            )

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        return divided(self, self.num_heads)

    @property
    def rotary_dim(self) -> int:
        """Channels of each head that are turned by their position."""
        return int(self.head_dim * self.rotary_fraction)

    @property
    def stds(self) -> tuple[float, float]:
        """Standard deviations of initial weights, and of those back into the residual stream.

        As published: Nguyen and Salazar 2019 (arXiv:1910.05895), and Wang 2021.
        """
        if self.initialization == "normal":
            return self.init_std, self.init_std
        return math.sqrt(2 / (5 * self.embed_dim)), residual_std(self.num_layers, self.embed_dim)


class Block(eqx.Module):
    """Attention and feed-forward: added to the stream together, or one after the other."""

    attention_norm: LayerNorm
    attention: RotaryAttention
    feed_forward_norm: LayerNorm
    feed_forward: FeedForward
    parallel: bool = eqx.field(static=True)
    dropout_rate: float = eqx.field(static=True)

    @staticmethod
    def init(key: Key[Array, ""], config: GPTNeoXConfig) -> "Block":
        """A block with random weights."""
        attention_key, feed_forward_key = jax.random.split(key)
        attention = RotaryAttention.init(
            attention_key,
            config.embed_dim,
            (config.num_heads, config.num_heads, config.head_dim),
            stds=config.stds,
            dropout_rate=config.dropout,
        )
        return Block(
            attention_norm=_norm(config),
            attention=zero_biases(attention, output=True) if config.attention_bias else attention,
            feed_forward_norm=_norm(config),
            feed_forward=FeedForward.init(
                feed_forward_key,
                config.embed_dim,
                config.mlp_dim or 4 * config.embed_dim,
                bias=True,
                activation=config.activation,
                init_std=config.stds[0],
                output_std=config.stds[1],
            ),
            parallel=config.parallel_residual,
            dropout_rate=config.dropout,
        )

    def __call__(
        self,
        x: Float[Array, "batch seq embed"],
        mask: AttentionMask,
        rotation: Rotation,
        cache: LayerCache | None = None,
        *,
        key: DropoutKey | None = None,
    ) -> tuple[Float[Array, "batch seq embed"], LayerCache | None]:
        """Hidden states after the block, and the cache with this block's keys and values."""
        keys = split_key(key, 3)
        attended, cache = self.attention(self.attention_norm(x), mask, rotation, cache, key=keys[0])
        after_attention = x + dropout(attended, self.dropout_rate, keys[1])
        seen = x if self.parallel else after_attention
        fed = self.feed_forward(self.feed_forward_norm(seen))
        return after_attention + dropout(fed, self.dropout_rate, keys[2]), cache


class GPTNeoX(Decoder):
    """The whole model; ``blocks`` holds all blocks' parameters on a leading ``layers`` axis."""

    token_embedding: Float[Array, "vocab embed"]
    blocks: Block
    final_norm: LayerNorm
    output_weight: Float[Array, "vocab embed"] | None
    """None: the token embedding."""
    config: GPTNeoXConfig = eqx.field(static=True)

    @staticmethod
    def init(key: Key[Array, ""], config: GPTNeoXConfig) -> "GPTNeoX":
        """Random weights; ``config.vocab_size`` must be known."""
        token_key, output_key, blocks_key = jax.random.split(key, 3)
        std = config.stds[0]
        return GPTNeoX(
            token_embedding=token_table(token_key, config, std),
            blocks=stack(lambda k: Block.init(k, config), blocks_key, config.num_layers),
            final_norm=_norm(config),
            output_weight=None if config.tied else token_table(output_key, config, std),
            config=config,
        )

    @property
    def unembedding(self) -> Unembedding:
        """A matrix of its own, or the token embedding used a second time."""
        assert self.config.vocab_size is not None
        weight = self.token_embedding if self.output_weight is None else self.output_weight
        return Unembedding(weight, None, self.config.vocab_size)

    @property
    def cache_heads(self) -> tuple[int, int]:
        """Every head has its own keys."""
        return self.config.num_heads, self.config.head_dim

    def hidden(
        self,
        input_ids: Int[Array, "batch seq"],
        positions: Int[Array, "#batch seq"],
        mask: AttentionMask,
        caches: LayerCaches | None,
        *,
        key: DropoutKey | None = None,
        remat: RematPolicy = "none",
        unroll: bool = False,
    ) -> tuple[Float[Array, "batch seq embed"], LayerCaches | None]:
        """Embed, run the blocks, normalise."""
        config = self.config
        embedding_key, blocks_key = split_key(key, 2)
        x = dropout(lookup(self.token_embedding, input_ids), config.dropout, embedding_key)
        turns = rotation(positions, frequencies(config.rotary_dim, config.rotary_base))
        x, caches = apply_blocks(
            lambda block, x, cache, key: block(x, mask, turns, cache, key=key),
            self.blocks,
            x,
            caches,
            key=blocks_key,
            remat=remat,
            unroll=unroll,
        )
        return self.final_norm(x), caches


def _norm(config: GPTNeoXConfig) -> LayerNorm:
    return LayerNorm.init(config.embed_dim, epsilon=config.norm_epsilon)


def _published(
    num_layers: int,
    num_heads: int,
    embed_dim: int,
    vocab_size: int = 50_304,
    activation: Activation = "gelu",
) -> GPTNeoXConfig:
    return GPTNeoXConfig(
        num_layers=num_layers,
        num_heads=num_heads,
        embed_dim=embed_dim,
        vocab_size=vocab_size,
        activation=activation,
        context_length=2048,
    )


PRESETS = {
    "pythia-14m": _published(6, 4, 128),
    "pythia-31m": _published(6, 8, 256),
    "pythia-70m": _published(6, 8, 512),
    "pythia-160m": _published(12, 12, 768),
    "pythia-410m": _published(24, 16, 1024),
    "pythia-1b": _published(16, 8, 2048),
    "pythia-1.4b": _published(24, 16, 2048),
    "pythia-2.8b": _published(32, 32, 2560),
    "pythia-6.9b": _published(32, 32, 4096, 50_432),
    "pythia-12b": _published(36, 40, 5120, 50_688),
    # Its fused kernel computed the tanh approximation; its config.json says gelu_fast.
    "gpt-neox-20b": _published(44, 64, 6144, 50_432, "gelu_tanh"),
}
"""The published sizes, with the vocabularies of their files (rounded up for tensor parallelism)."""

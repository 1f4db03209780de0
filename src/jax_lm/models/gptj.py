"""GPT-J (Wang and Komatsuzaki 2021, mesh-transformer-jax).

Notable features: rotary positions on the first channels of each head, neighbours turned as pairs;
attention and feed-forward side by side on *one* norm, both added to the stream at once; no biases
in the attention; an output matrix of its own with a bias; GELU (tanh approximation).
"""

import math
from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
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
from jax_lm.models.layers.rotary_attention import RotaryAttention
from jax_lm.models.layers.stack import RematPolicy, apply_blocks, stack

CUT_OFF = 0.8796
"""Standard deviation of a unit normal distribution cut off at 2, as mesh-transformer-jax draws
initial weights; here they are of a whole one with the standard deviation that it leaves."""


@dataclass(frozen=True, kw_only=True)
class GPTJConfig(ModelConfig):
    """Shape of a GPT-J."""

    family: Literal["gptj"] = "gptj"
    """Model family."""
    rotary_dim: int = 64
    """Channels of each head that are turned by their position; even."""
    mlp_dim: int | None = None
    """Width of the feed-forward layer; None is 4 * embed_dim."""
    activation: Activation = "gelu_tanh"
    """Of the feed-forward layer."""
    norm_epsilon: float = 1e-5
    """Added to the variance in LayerNorm."""
    initialization: Initialization = "published"
    """Standard deviations of initial weights. published: 0.88 times 1/sqrt(vocab_size) for the
    token embedding, 2/(num_layers * sqrt(embed_dim)) for projections back into the residual
    stream, 1/sqrt(embed_dim) for the others; normal: init_std for all."""

    def __post_init__(self) -> None:
        """Refuse shapes that cannot be built."""
        super().__post_init__()
        if self.rotary_dim % 2 or self.rotary_dim > self.head_dim:
            raise UsageError(
                f"rotary_dim is {self.rotary_dim}, expected an even number up to the width of a "
                f"head, {self.head_dim}"
            )

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        return divided(self, self.num_heads)

    @property
    def stds(self) -> tuple[float, float]:
        """Standard deviations of projections inward, and back into the residual stream."""
        if self.initialization == "normal":
            return self.init_std, self.init_std
        outward = residual_std(self.num_layers, self.embed_dim)
        return CUT_OFF / math.sqrt(self.embed_dim), CUT_OFF * outward

    @property
    def token_std(self) -> float:
        """Standard deviation of initial token embeddings."""
        if self.initialization == "normal":
            return self.init_std
        assert self.vocab_size is not None, "vocab_size comes from the tokenizer"
        return CUT_OFF / math.sqrt(self.vocab_size)


class Block(eqx.Module):
    """One residual line: attention and feed-forward on the same normalised input."""

    norm: LayerNorm
    attention: RotaryAttention
    feed_forward: FeedForward
    dropout_rate: float = eqx.field(static=True)

    @staticmethod
    def init(key: Key[Array, ""], config: GPTJConfig) -> "Block":
        """A block with random weights."""
        attention_key, feed_forward_key = jax.random.split(key)
        inward, outward = config.stds
        return Block(
            norm=_norm(config),
            attention=RotaryAttention.init(
                attention_key,
                config.embed_dim,
                (config.num_heads, config.num_heads, config.head_dim),
                stds=config.stds,
                dropout_rate=config.dropout,
                interleaved=True,
            ),
            feed_forward=FeedForward.init(
                feed_forward_key,
                config.embed_dim,
                config.mlp_dim or 4 * config.embed_dim,
                bias=True,
                activation=config.activation,
                init_std=inward,
                output_std=outward,
            ),
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
        normed = self.norm(x)
        attended, cache = self.attention(normed, mask, rotation, cache, key=keys[0])
        attended = dropout(attended, self.dropout_rate, keys[1])
        fed = dropout(self.feed_forward(normed), self.dropout_rate, keys[2])
        return x + attended + fed, cache


class GPTJ(Decoder):
    """The whole model; ``blocks`` holds all blocks' parameters on a leading ``layers`` axis."""

    token_embedding: Float[Array, "vocab embed"]
    blocks: Block
    final_norm: LayerNorm
    output_weight: Float[Array, "vocab embed"]
    output_bias: Float[Array, "vocab"]
    config: GPTJConfig = eqx.field(static=True)

    @staticmethod
    def init(key: Key[Array, ""], config: GPTJConfig) -> "GPTJ":
        """Random weights; ``config.vocab_size`` must be known."""
        token_key, output_key, blocks_key = jax.random.split(key, 3)
        return GPTJ(
            token_embedding=token_table(token_key, config, config.token_std),
            blocks=stack(lambda k: Block.init(k, config), blocks_key, config.num_layers),
            final_norm=_norm(config),
            output_weight=token_table(output_key, config, config.stds[0]),
            output_bias=jnp.zeros(config.padded_vocab_size),
            config=config,
        )

    @property
    def unembedding(self) -> Unembedding:
        """A matrix of its own, and a bias."""
        assert self.config.vocab_size is not None
        return Unembedding(self.output_weight, self.output_bias, self.config.vocab_size)

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
        embedding_key, blocks_key = split_key(key, 2)
        x = dropout(lookup(self.token_embedding, input_ids), self.config.dropout, embedding_key)
        turns = rotation(positions, frequencies(self.config.rotary_dim))
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


def _norm(config: GPTJConfig) -> LayerNorm:
    return LayerNorm.init(config.embed_dim, epsilon=config.norm_epsilon)


PRESETS = {
    "gpt-j-6b": GPTJConfig(
        vocab_size=50_400, context_length=2048, num_layers=28, num_heads=16, embed_dim=4096
    ),
}
"""The published size: https://huggingface.co/EleutherAI/gpt-j-6b."""

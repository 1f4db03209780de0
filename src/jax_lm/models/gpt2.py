"""GPT-2 (Radford et al. 2019).

Notable features: learned positions; pre-norm blocks with LayerNorm; GELU (tanh approximation);
biases everywhere, which ``bias=False`` leaves out; output matrix tied to the token embedding;
projections back into the residual stream initialised smaller by 1/sqrt(2 * layers).
"""

import math
from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int, Key

from jax_lm.models.base import ModelConfig, Unembedding, divided, token_table
from jax_lm.models.decoder import Decoder
from jax_lm.models.layers.activations import Activation
from jax_lm.models.layers.attention import Attention
from jax_lm.models.layers.dropout import DropoutKey, dropout, split_key
from jax_lm.models.layers.embedding import lookup
from jax_lm.models.layers.feed_forward import FeedForward
from jax_lm.models.layers.init import normal
from jax_lm.models.layers.kv_cache import LayerCache, LayerCaches
from jax_lm.models.layers.mask import AttentionMask
from jax_lm.models.layers.norm import LayerNorm
from jax_lm.models.layers.stack import RematPolicy, apply_blocks, stack


@dataclass(frozen=True, kw_only=True)
class GPT2Config(ModelConfig):
    """Shape of a GPT-2; the defaults are the 124M model."""

    family: Literal["gpt2"] = "gpt2"
    """Model family."""
    mlp_dim: int | None = None
    """Width of the feed-forward layer; None is 4 * embed_dim."""
    bias: bool = True
    """Biases in projections and norms."""
    activation: Activation = "gelu_tanh"
    """Of the feed-forward layer: GPT-2's tanh approximation, or the exact GELU."""
    norm_epsilon: float = 1e-5
    """Added to the variance in LayerNorm."""

    def __post_init__(self) -> None:
        """Refuse shapes that cannot be built."""
        super().__post_init__()
        _ = self.head_dim

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        return divided(self, self.num_heads)


class Block(eqx.Module):
    """Two residual lines: attention, then feed-forward, each on normalised input."""

    attention_norm: LayerNorm
    attention: Attention
    feed_forward_norm: LayerNorm
    feed_forward: FeedForward
    dropout_rate: float = eqx.field(static=True)

    @staticmethod
    def init(key: Key[Array, ""], config: GPT2Config) -> "Block":
        """A block as published."""
        attention_key, feed_forward_key = jax.random.split(key)
        stds = {
            "init_std": config.init_std,
            "output_std": config.init_std / math.sqrt(2 * config.num_layers),
        }
        return Block(
            attention_norm=_norm(config),
            attention=Attention.init(
                attention_key,
                config.embed_dim,
                config.num_heads,
                bias=config.bias,
                dropout_rate=config.dropout,
                **stds,
            ),
            feed_forward_norm=_norm(config),
            feed_forward=FeedForward.init(
                feed_forward_key,
                config.embed_dim,
                config.mlp_dim or 4 * config.embed_dim,
                bias=config.bias,
                activation=config.activation,
                **stds,
            ),
            dropout_rate=config.dropout,
        )

    def __call__(
        self,
        x: Float[Array, "batch seq embed"],
        mask: AttentionMask,
        cache: LayerCache | None = None,
        *,
        key: DropoutKey | None = None,
    ) -> tuple[Float[Array, "batch seq embed"], LayerCache | None]:
        """Hidden states after the block, and the cache with this block's keys and values."""
        keys = split_key(key, 3)
        attended, cache = self.attention(self.attention_norm(x), mask, cache, key=keys[0])
        x = x + dropout(attended, self.dropout_rate, keys[1])
        x = x + dropout(self.feed_forward(self.feed_forward_norm(x)), self.dropout_rate, keys[2])
        return x, cache


class GPT2(Decoder):
    """The whole model; ``blocks`` holds all blocks' parameters on a leading ``layers`` axis."""

    token_embedding: Float[Array, "vocab embed"]
    position_embedding: Float[Array, "context embed"]
    blocks: Block
    final_norm: LayerNorm
    config: GPT2Config = eqx.field(static=True)

    @staticmethod
    def init(key: Key[Array, ""], config: GPT2Config) -> "GPT2":
        """Random weights as published; ``config.vocab_size`` must be known."""
        token_key, position_key, blocks_key = jax.random.split(key, 3)
        embed_dim, std = config.embed_dim, config.init_std
        return GPT2(
            token_embedding=token_table(token_key, config, std),
            position_embedding=normal(position_key, (config.context_length, embed_dim), std),
            blocks=stack(lambda k: Block.init(k, config), blocks_key, config.num_layers),
            final_norm=_norm(config),
            config=config,
        )

    @property
    def unembedding(self) -> Unembedding:
        """The token embedding, used a second time."""
        assert self.config.vocab_size is not None
        return Unembedding(self.token_embedding, None, self.config.vocab_size)

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
        x = lookup(self.token_embedding, input_ids) + self.position_embedding[positions]
        x = dropout(x, self.config.dropout, embedding_key)
        x, caches = apply_blocks(
            lambda block, x, cache, key: block(x, mask, cache, key=key),
            self.blocks,
            x,
            caches,
            key=blocks_key,
            remat=remat,
            unroll=unroll,
        )
        return self.final_norm(x), caches


def _norm(config: GPT2Config) -> LayerNorm:
    return LayerNorm.init(config.embed_dim, bias=config.bias, epsilon=config.norm_epsilon)


def _published(num_layers: int, num_heads: int, embed_dim: int) -> GPT2Config:
    return GPT2Config(
        vocab_size=50_257,
        num_layers=num_layers,
        num_heads=num_heads,
        embed_dim=embed_dim,
        dropout=0.1,
    )


def _dsgpt2(num_layers: int, num_heads: int, embed_dim: int, context_length: int) -> GPT2Config:
    return GPT2Config(
        vocab_size=50_257,
        context_length=context_length,
        num_layers=num_layers,
        num_heads=num_heads,
        embed_dim=embed_dim,
    )


PRESETS = {
    "gpt2": _published(12, 12, 768),
    "gpt2-medium": _published(24, 16, 1024),
    "gpt2-large": _published(36, 20, 1280),
    "gpt2-xl": _published(48, 25, 1600),
    "distilgpt2": _published(6, 12, 768),
    "dsgpt2-112m": _dsgpt2(12, 12, 768, 128),
    "dsgpt2-112m-half": _dsgpt2(6, 6, 768, 64),
    "dsgpt2-345m": _dsgpt2(24, 16, 1024, 64),
}
"""OpenAI's sizes and the distilled one (dropout as in their config.json), and those of dsGPT2,
without dropout."""

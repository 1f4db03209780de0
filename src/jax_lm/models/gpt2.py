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
import jax.numpy as jnp
from jaxtyping import Array, Bool, DTypeLike, Float, Int, Key

from jax_lm.errors import UsageError
from jax_lm.models.layers.attention import Attention
from jax_lm.models.layers.dropout import dropout, split_key
from jax_lm.models.layers.feed_forward import Activation, FeedForward
from jax_lm.models.layers.init import normal
from jax_lm.models.layers.kv_cache import KVCache, LayerCache, causal_mask, empty_cache
from jax_lm.models.layers.norm import LayerNorm
from jax_lm.models.layers.stack import apply_stack, stack


@dataclass(frozen=True, kw_only=True)
class GPT2Config:
    """Shape of a GPT-2; the defaults are the 124M model."""

    family: Literal["gpt2"] = "gpt2"
    """Model family."""
    vocab_size: int | None = None
    """Number of token ids; None takes the tokenizer's."""
    context_length: int = 1024
    """Longest sequence, in tokens; also the length of a training row."""
    num_layers: int = 12
    """Number of blocks."""
    num_heads: int = 12
    """Attention heads a block; must divide embed_dim."""
    embed_dim: int = 768
    """Width of the residual stream."""
    mlp_dim: int | None = None
    """Width of the feed-forward layer; None is 4 * embed_dim."""
    bias: bool = True
    """Biases in projections and norms."""
    activation: Activation = "gelu_tanh"
    """Of the feed-forward layer: GPT-2's tanh approximation, or the exact GELU."""
    dropout: float = 0.0
    """Rate on embeddings, attention weights and residual branches (GPT-2 used 0.1)."""
    init_std: float = 0.02
    """Standard deviation of initial weights."""
    norm_epsilon: float = 1e-5
    """Added to the variance in LayerNorm."""

    def __post_init__(self) -> None:
        """Refuse shapes that cannot be built."""
        if self.embed_dim % self.num_heads:
            raise UsageError(
                f"embed_dim {self.embed_dim} is not a multiple of num_heads {self.num_heads}"
            )

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        return self.embed_dim // self.num_heads


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
        mask: Bool[Array, "#batch seq slots"],
        cache: LayerCache | None = None,
        positions: Int[Array, "batch seq"] | None = None,
        *,
        key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "batch seq embed"], LayerCache | None]:
        """Hidden states after the block, and the cache with this block's keys and values."""
        keys = split_key(key, 3)
        normed = self.attention_norm(x)
        attended, cache = self.attention(normed, mask, cache, positions, key=keys[0])
        x = x + dropout(attended, self.dropout_rate, keys[1])
        x = x + dropout(self.feed_forward(self.feed_forward_norm(x)), self.dropout_rate, keys[2])
        return x, cache


class GPT2(eqx.Module):
    """The whole model; ``blocks`` holds all blocks' parameters on a leading ``layers`` axis."""

    token_embedding: Float[Array, "vocab embed"]
    position_embedding: Float[Array, "context embed"]
    blocks: Block
    final_norm: LayerNorm
    config: GPT2Config = eqx.field(static=True)

    @staticmethod
    def init(key: Key[Array, ""], config: GPT2Config) -> "GPT2":
        """Random weights as published; ``config.vocab_size`` must be known."""
        assert config.vocab_size is not None, "vocab_size comes from the tokenizer"
        token_key, position_key, blocks_key = jax.random.split(key, 3)
        embed_dim, std = config.embed_dim, config.init_std
        return GPT2(
            token_embedding=normal(token_key, (config.vocab_size, embed_dim), std),
            position_embedding=normal(position_key, (config.context_length, embed_dim), std),
            blocks=stack(lambda k: Block.init(k, config), blocks_key, config.num_layers),
            final_norm=_norm(config),
            config=config,
        )

    @property
    def unembedding(self) -> Float[Array, "vocab embed"]:
        """The output matrix, tied to the token embedding: logits = hidden @ unembedding.T."""
        return self.token_embedding

    def __call__(
        self,
        input_ids: Int[Array, "batch seq"],
        *,
        key: Key[Array, ""] | None = None,
        remat: bool = False,
        unroll: bool = False,
    ) -> Float[Array, "batch seq embed"]:
        """Final hidden states of whole sequences, each position seeing itself and what is before.

        Args:
            input_ids: token ids; padding belongs on the right, where nothing real sees it.
            key: for dropout; None: inference.
            remat: recompute block activations in the backward pass.
            unroll: trace every block on its own.
        """
        seq = input_ids.shape[1]
        embedding_key, blocks_key = split_key(key, 2)
        x = self.token_embedding[input_ids] + self.position_embedding[None, :seq]
        x = dropout(x, self.config.dropout, embedding_key)
        mask = jnp.tril(jnp.ones((1, seq, seq), bool))

        def apply(
            block: Block, x: Float[Array, "batch seq embed"], key: Key[Array, ""] | None
        ) -> tuple[Float[Array, "batch seq embed"], None]:
            return block(x, mask, key=key)[0], None

        keys = None if blocks_key is None else jax.random.split(blocks_key, self.config.num_layers)
        x, _ = apply_stack(apply, self.blocks, x, keys, remat=remat, unroll=unroll)
        return self.final_norm(x)

    def empty_cache(self, batch: int, slots: int, dtype: DTypeLike = jnp.float32) -> KVCache:
        """A cache for ``batch`` rows of at most ``slots`` tokens."""
        config = self.config
        return empty_cache(
            (config.num_layers, batch, config.num_heads, slots, config.head_dim), dtype
        )

    def decode(
        self, input_ids: Int[Array, "batch seq"], cache: KVCache
    ) -> tuple[Float[Array, "batch seq embed"], KVCache]:
        """Final hidden states of tokens that continue what the cache holds, and the new cache.

        The rows' lengths grow by ``seq``; a caller whose rows are padded on the right sets them
        back to the real lengths: what lies beyond a row's length is never seen, and overwritten.
        """
        seq = input_ids.shape[1]
        positions = cache.lengths[:, None] + jnp.arange(seq)[None, :]
        mask = causal_mask(positions, cache.layers.key.shape[3])
        x = self.token_embedding[input_ids] + self.position_embedding[positions]

        def apply(
            block: Block, x: Float[Array, "batch seq embed"], layer: LayerCache
        ) -> tuple[Float[Array, "batch seq embed"], LayerCache]:
            x, layer_after = block(x, mask, layer, positions)
            assert layer_after is not None
            return x, layer_after

        x, layers = apply_stack(apply, self.blocks, x, cache.layers)
        return self.final_norm(x), KVCache(layers, cache.lengths + seq)


def _norm(config: GPT2Config) -> LayerNorm:
    return LayerNorm.init(config.embed_dim, bias=config.bias, epsilon=config.norm_epsilon)

"""T5's blocks and the two stacks they make."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from jax_lm.models.encoder_decoder import DecoderCaches, memory_of, with_memory
from jax_lm.models.layers.attention import Attention
from jax_lm.models.layers.dropout import DropoutKey, dropout, split_key
from jax_lm.models.layers.feed_forward import FeedForward, GatedFeedForward
from jax_lm.models.layers.init import normal
from jax_lm.models.layers.kv_cache import LayerCache, LayerCaches, num_slots
from jax_lm.models.layers.mask import AttentionMask
from jax_lm.models.layers.norm import RMSNorm
from jax_lm.models.layers.relative_bias import RelativeBias
from jax_lm.models.layers.stack import RematPolicy, apply_blocks, map_blocks, stack
from jax_lm.models.t5.config import T5Config


class EncoderBlock(eqx.Module):
    """Two residual lines: attention, then feed-forward, each on normalised input."""

    attention_norm: RMSNorm
    attention: Attention
    feed_forward_norm: RMSNorm
    feed_forward: FeedForward | GatedFeedForward
    dropout_rate: float = eqx.field(static=True)

    @staticmethod
    def init(key: Key[Array, ""], config: T5Config) -> "EncoderBlock":
        """A block as published."""
        attention_key, feed_forward_key = jax.random.split(key)
        return EncoderBlock(
            attention_norm=_norm(config),
            attention=_attention(attention_key, config),
            feed_forward_norm=_norm(config),
            feed_forward=_feed_forward(feed_forward_key, config),
            dropout_rate=config.dropout,
        )

    def __call__(
        self,
        x: Float[Array, "batch seq embed"],
        mask: AttentionMask,
        bias: Float[Array, "#batch heads seq seq"],
        *,
        key: DropoutKey | None = None,
    ) -> Float[Array, "batch seq embed"]:
        """Hidden states after the block; ``bias`` is that of the relative positions."""
        keys = split_key(key, 4)
        attended, _ = self.attention(self.attention_norm(x), mask, bias=bias, key=keys[0])
        x = x + dropout(attended, self.dropout_rate, keys[1])
        y = self.feed_forward(self.feed_forward_norm(x), key=keys[2])
        return x + dropout(y, self.dropout_rate, keys[3])


class DecoderBlock(eqx.Module):
    """Three residual lines: attention to the output so far, to the input, then feed-forward."""

    attention_norm: RMSNorm
    attention: Attention
    cross_attention_norm: RMSNorm
    cross_attention: Attention
    feed_forward_norm: RMSNorm
    feed_forward: FeedForward | GatedFeedForward
    dropout_rate: float = eqx.field(static=True)

    @staticmethod
    def init(key: Key[Array, ""], config: T5Config) -> "DecoderBlock":
        """A block as published."""
        attention_key, cross_attention_key, feed_forward_key = jax.random.split(key, 3)
        return DecoderBlock(
            attention_norm=_norm(config),
            attention=_attention(attention_key, config),
            cross_attention_norm=_norm(config),
            cross_attention=_attention(cross_attention_key, config),
            feed_forward_norm=_norm(config),
            feed_forward=_feed_forward(feed_forward_key, config),
            dropout_rate=config.dropout,
        )

    def __call__(
        self,
        x: Float[Array, "batch seq embed"],
        masks: tuple[AttentionMask, AttentionMask],
        bias: Float[Array, "#batch heads seq slots"],
        memory: LayerCache,
        cache: LayerCache | None = None,
        *,
        key: DropoutKey | None = None,
    ) -> tuple[Float[Array, "batch seq embed"], LayerCache | None]:
        """Hidden states after the block, and the cache with this block's keys and values.

        Args:
            x: hidden states of output positions.
            masks: over the output, and over the input.
            bias: of the output's relative positions; the input's are not compared with them.
            memory: the input's keys and values, as ``cross_attention`` remembers them.
            cache: of earlier output tokens.
            key: for dropout; None: inference.
        """
        rate, keys = self.dropout_rate, split_key(key, 6)
        y, cache = self.attention(self.attention_norm(x), masks[0], cache, bias=bias, key=keys[0])
        x = x + dropout(y, rate, keys[1])
        y = self.cross_attention.recall(self.cross_attention_norm(x), memory, masks[1], key=keys[2])
        x = x + dropout(y, rate, keys[3])
        y = self.feed_forward(self.feed_forward_norm(x), key=keys[4])
        return x + dropout(y, rate, keys[5]), cache


class EncoderStack(eqx.Module):
    """From the input's embeddings to what the decoder attends to."""

    relative_bias: RelativeBias
    blocks: EncoderBlock
    final_norm: RMSNorm
    dropout_rate: float = eqx.field(static=True)

    @staticmethod
    def init(key: Key[Array, ""], config: T5Config) -> "EncoderStack":
        """A stack as published."""
        bias_key, blocks_key = jax.random.split(key)
        return EncoderStack(
            relative_bias=_relative_bias(bias_key, config, bidirectional=True),
            blocks=stack(lambda k: EncoderBlock.init(k, config), blocks_key, config.num_layers),
            final_norm=_norm(config),
            dropout_rate=config.dropout,
        )

    def __call__(
        self,
        x: Float[Array, "batch seq embed"],
        mask: AttentionMask,
        *,
        key: DropoutKey | None = None,
        remat: RematPolicy = "none",
        unroll: bool = False,
    ) -> Float[Array, "batch seq embed"]:
        """Normalised hidden states of the whole input."""
        keys = split_key(key, 3)
        bias = self.relative_bias(jnp.arange(x.shape[1])[None, :], x.shape[1]).astype(x.dtype)
        x = dropout(x, self.dropout_rate, keys[0])
        x, _ = apply_blocks(
            lambda block, x, _, key: (block(x, mask, bias, key=key), None),
            self.blocks,
            x,
            None,
            key=keys[1],
            remat=remat,
            unroll=unroll,
        )
        return dropout(self.final_norm(x), self.dropout_rate, keys[2])


class DecoderStack(eqx.Module):
    """From the output's embeddings to its hidden states."""

    relative_bias: RelativeBias
    blocks: DecoderBlock
    final_norm: RMSNorm
    dropout_rate: float = eqx.field(static=True)

    @staticmethod
    def init(key: Key[Array, ""], config: T5Config) -> "DecoderStack":
        """A stack as published."""
        bias_key, blocks_key = jax.random.split(key)
        return DecoderStack(
            relative_bias=_relative_bias(bias_key, config, bidirectional=False),
            blocks=stack(lambda k: DecoderBlock.init(k, config), blocks_key, config.decoder_layers),
            final_norm=_norm(config),
            dropout_rate=config.dropout,
        )

    def __call__(
        self,
        x: Float[Array, "batch seq embed"],
        masks: tuple[AttentionMask, AttentionMask],
        encoded: Float[Array, "batch slots embed"] | None,
        caches: DecoderCaches | None,
        *,
        key: DropoutKey | None = None,
        remat: RematPolicy = "none",
        unroll: bool = False,
    ) -> tuple[Float[Array, "batch seq embed"], DecoderCaches | None]:
        """Normalised hidden states of output positions; arguments as in ``decoder_hidden``."""

        def apply(layer: tuple[DecoderBlock, LayerCache | None], x: Any, own: Any, key: Any) -> Any:
            block, remembered = layer
            memory = memory_of(block.cross_attention, remembered, encoded)
            return block(x, masks, bias, memory, own, key=key)

        keys = split_key(key, 3)
        bias = self._bias(x, masks[0], caches)
        x = dropout(x, self.dropout_rate, keys[0])
        x, own = apply_blocks(
            apply,
            with_memory(self.blocks, caches),
            x,
            None if caches is None else caches.own,
            key=keys[1],
            remat=remat,
            unroll=unroll,
        )
        x = dropout(self.final_norm(x), self.dropout_rate, keys[2])
        return x, None if own is None or caches is None else caches._replace(own=own)

    def remember(self, encoded: Float[Array, "batch slots embed"]) -> LayerCaches:
        """The input's keys and values for every block, stacked where the blocks are."""
        memory: LayerCaches = map_blocks(
            lambda block: block.cross_attention.remember(encoded), self.blocks
        )
        return memory

    def _bias(
        self,
        x: Float[Array, "batch seq embed"],
        mask: AttentionMask,
        caches: DecoderCaches | None,
    ) -> Float[Array, "#batch heads seq slots"]:
        """Of queries that are all there is, or that stand somewhere in a cache."""
        queries = mask.query_slots
        if queries is None:
            queries = jnp.arange(x.shape[1])[None, :]
        slots = x.shape[1] if caches is None else num_slots(caches.own)
        return self.relative_bias(queries, slots).astype(x.dtype)


def _norm(config: T5Config) -> RMSNorm:
    return RMSNorm.init(config.embed_dim, epsilon=config.norm_epsilon)


def _relative_bias(key: Key[Array, ""], config: T5Config, *, bidirectional: bool) -> RelativeBias:
    return RelativeBias.init(
        key,
        (config.num_buckets, config.num_heads),
        bidirectional=bidirectional,
        max_distance=config.max_distance,
        init_std=config.init_std / math.sqrt(config.embed_dim),
    )


def _attention(key: Key[Array, ""], config: T5Config) -> Attention:
    """Scores are not scaled; the queries' weights start smaller by as much instead."""
    heads, head_dim = config.num_heads, config.head_dim
    inward, outward = (config.embed_dim, heads, head_dim), (heads, head_dim, config.embed_dim)
    inward_std = config.init_std / math.sqrt(config.embed_dim)
    query_key, key_key, value_key, output_key = jax.random.split(key, 4)
    return Attention(
        query_weight=normal(query_key, inward, inward_std / math.sqrt(head_dim)),
        key_weight=normal(key_key, inward, inward_std),
        value_weight=normal(value_key, inward, inward_std),
        output_weight=normal(output_key, outward, config.init_std / math.sqrt(heads * head_dim)),
        query_bias=None,
        key_bias=None,
        value_bias=None,
        output_bias=None,
        dropout_rate=config.dropout,
        scale=1.0,
    )


def _feed_forward(key: Key[Array, ""], config: T5Config) -> FeedForward | GatedFeedForward:
    options: dict[str, Any] = {
        "activation": config.activation,
        "init_std": config.init_std / math.sqrt(config.embed_dim),
        "output_std": config.init_std / math.sqrt(config.mlp_dim),
        "dropout_rate": config.dropout,
    }
    if config.gated:
        return GatedFeedForward.init(key, config.embed_dim, config.mlp_dim, **options)
    return FeedForward.init(key, config.embed_dim, config.mlp_dim, bias=False, **options)

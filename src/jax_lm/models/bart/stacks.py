"""BART's blocks and the two stacks they make."""

from collections.abc import Callable
from typing import Generic, TypeVar

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int, Key

from jax_lm.models.bart.config import BartConfig, StackShape
from jax_lm.models.layers.attention import Attention
from jax_lm.models.layers.dropout import DropoutKey, dropout, split_key
from jax_lm.models.layers.feed_forward import FeedForward
from jax_lm.models.layers.init import normal
from jax_lm.models.layers.kv_cache import LayerCache
from jax_lm.models.layers.mask import AttentionMask
from jax_lm.models.layers.norm import LayerNorm
from jax_lm.models.layers.stack import stack

FIRST_POSITION = 2
"""Row of a position embedding that a sequence's first token has: fairseq counted from after the id
of its padding token, which was 1."""


class EncoderBlock(eqx.Module):
    """Two residual lines, each normalised after the sum."""

    attention: Attention
    attention_norm: LayerNorm
    feed_forward: FeedForward
    feed_forward_norm: LayerNorm
    dropout_rate: float = eqx.field(static=True)

    @staticmethod
    def init(key: Key[Array, ""], config: BartConfig) -> "EncoderBlock":
        """A block as published."""
        attention_key, feed_forward_key = jax.random.split(key)
        return EncoderBlock(
            attention=_attention(attention_key, config, config.encoder),
            attention_norm=LayerNorm.init(config.embed_dim),
            feed_forward=_feed_forward(feed_forward_key, config, config.encoder),
            feed_forward_norm=LayerNorm.init(config.embed_dim),
            dropout_rate=config.dropout,
        )

    def __call__(
        self,
        x: Float[Array, "batch seq embed"],
        mask: AttentionMask,
        *,
        key: DropoutKey | None = None,
    ) -> Float[Array, "batch seq embed"]:
        """Hidden states after the block."""
        keys = split_key(key, 4)
        attended, _ = self.attention(x, mask, key=keys[0])
        x = self.attention_norm(x + dropout(attended, self.dropout_rate, keys[1]))
        fed = self.feed_forward(x, key=keys[2])
        return self.feed_forward_norm(x + dropout(fed, self.dropout_rate, keys[3]))


class DecoderBlock(eqx.Module):
    """Three residual lines, each normalised after the sum; the second looks at the input."""

    attention: Attention
    attention_norm: LayerNorm
    cross_attention: Attention
    cross_attention_norm: LayerNorm
    feed_forward: FeedForward
    feed_forward_norm: LayerNorm
    dropout_rate: float = eqx.field(static=True)

    @staticmethod
    def init(key: Key[Array, ""], config: BartConfig) -> "DecoderBlock":
        """A block as published."""
        attention_key, cross_key, feed_forward_key = jax.random.split(key, 3)
        return DecoderBlock(
            attention=_attention(attention_key, config, config.decoder),
            attention_norm=LayerNorm.init(config.embed_dim),
            cross_attention=_attention(cross_key, config, config.decoder),
            cross_attention_norm=LayerNorm.init(config.embed_dim),
            feed_forward=_feed_forward(feed_forward_key, config, config.decoder),
            feed_forward_norm=LayerNorm.init(config.embed_dim),
            dropout_rate=config.dropout,
        )

    def __call__(
        self,
        x: Float[Array, "batch seq embed"],
        masks: tuple[AttentionMask, AttentionMask],
        memory: LayerCache,
        cache: LayerCache | None = None,
        *,
        key: DropoutKey | None = None,
    ) -> tuple[Float[Array, "batch seq embed"], LayerCache | None]:
        """Hidden states after the block, and the cache with this block's keys and values.

        Args:
            x: hidden states of output positions.
            masks: over the output, and over the input.
            memory: the input's keys and values, as ``cross_attention`` remembers them.
            cache: of earlier output tokens.
            key: for dropout; None: inference.
        """
        keys, rate = split_key(key, 6), self.dropout_rate
        attended, cache = self.attention(x, masks[0], cache, key=keys[0])
        x = self.attention_norm(x + dropout(attended, rate, keys[1]))
        recalled = self.cross_attention.recall(x, memory, masks[1], key=keys[2])
        x = self.cross_attention_norm(x + dropout(recalled, rate, keys[3]))
        fed = self.feed_forward(x, key=keys[4])
        x = self.feed_forward_norm(x + dropout(fed, rate, keys[5]))
        return x, cache


Block = TypeVar("Block", EncoderBlock, DecoderBlock)


class Stack(eqx.Module, Generic[Block]):
    """One of the two stacks; ``blocks`` has a leading ``layers`` axis."""

    position_embedding: Float[Array, "context embed"]
    embedding_norm: LayerNorm
    blocks: Block
    dropout_rate: float = eqx.field(static=True)

    def embed(
        self,
        tokens: Float[Array, "batch seq embed"],
        positions: Int[Array, "#batch seq"],
        key: DropoutKey | None,
    ) -> Float[Array, "batch seq embed"]:
        """Token embeddings with their positions, normalised."""
        x = tokens + self.position_embedding[positions + FIRST_POSITION]
        return dropout(self.embedding_norm(x), self.dropout_rate, key)


def encoder_stack(key: Key[Array, ""], config: BartConfig) -> Stack[EncoderBlock]:
    """The stack that reads the input, with random weights."""
    return _stack(key, config, EncoderBlock.init, config.encoder.num_layers)


def decoder_stack(key: Key[Array, ""], config: BartConfig) -> Stack[DecoderBlock]:
    """The stack that writes the output, with random weights."""
    return _stack(key, config, DecoderBlock.init, config.decoder.num_layers)


def _stack(
    key: Key[Array, ""],
    config: BartConfig,
    init: Callable[[Key[Array, ""], BartConfig], Block],
    num_layers: int,
) -> Stack[Block]:
    position_key, blocks_key = jax.random.split(key)
    shape = (FIRST_POSITION + config.context_length, config.embed_dim)
    return Stack(
        position_embedding=normal(position_key, shape, config.init_std),
        embedding_norm=LayerNorm.init(config.embed_dim),
        blocks=stack(lambda k: init(k, config), blocks_key, num_layers),
        dropout_rate=config.dropout,
    )


def _attention(key: Key[Array, ""], config: BartConfig, shape: StackShape) -> Attention:
    return Attention.init(
        key,
        config.embed_dim,
        shape.num_heads,
        bias=True,
        dropout_rate=config.attention_dropout,
        init_std=config.init_std,
        output_std=config.init_std,
    )


def _feed_forward(key: Key[Array, ""], config: BartConfig, shape: StackShape) -> FeedForward:
    return FeedForward.init(
        key,
        config.embed_dim,
        shape.mlp_dim,
        bias=True,
        activation=config.activation,
        init_std=config.init_std,
        output_std=config.init_std,
        dropout_rate=config.activation_dropout,
    )

"""LLaMA's block and model."""

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int, Key

from jax_lm.models.base import Unembedding, token_table
from jax_lm.models.decoder import Decoder
from jax_lm.models.layers.dropout import DropoutKey
from jax_lm.models.layers.embedding import lookup
from jax_lm.models.layers.feed_forward import GatedFeedForward
from jax_lm.models.layers.kv_cache import LayerCache, LayerCaches
from jax_lm.models.layers.mask import AttentionMask
from jax_lm.models.layers.norm import RMSNorm
from jax_lm.models.layers.rotary import Rotation, rotation, scaled_frequencies
from jax_lm.models.layers.rotary_attention import RotaryAttention, unit_norms, zero_biases
from jax_lm.models.layers.stack import RematPolicy, apply_blocks, stack
from jax_lm.models.llama.config import LlamaConfig


class Block(eqx.Module):
    """Two residual lines: attention, then feed-forward, each on normalised input."""

    attention_norm: RMSNorm
    attention: RotaryAttention
    feed_forward_norm: RMSNorm
    feed_forward: GatedFeedForward

    @staticmethod
    def init(key: Key[Array, ""], config: LlamaConfig) -> "Block":
        """A block as the configurations published with the weights say (``initializer_range``).

        The papers are silent. Residual projections are not scaled by depth, biases zero.
        """
        attention_key, feed_forward_key = jax.random.split(key)
        return Block(
            attention_norm=_norm(config),
            attention=_attention(attention_key, config),
            feed_forward_norm=_norm(config),
            feed_forward=GatedFeedForward.init(
                feed_forward_key,
                config.embed_dim,
                config.feed_forward_dim,
                activation="silu",
                init_std=config.init_std,
                output_std=config.init_std,
            ),
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
        attended, cache = self.attention(self.attention_norm(x), mask, rotation, cache, key=key)
        x = x + attended
        return x + self.feed_forward(self.feed_forward_norm(x)), cache


class Llama(Decoder):
    """The whole model; ``blocks`` holds all blocks' parameters on a leading ``layers`` axis."""

    token_embedding: Float[Array, "vocab embed"]
    blocks: Block
    final_norm: RMSNorm
    output_weight: Float[Array, "vocab embed"] | None
    """None: the token embedding."""
    config: LlamaConfig = eqx.field(static=True)

    @staticmethod
    def init(key: Key[Array, ""], config: LlamaConfig) -> "Llama":
        """Random weights as published; ``config.vocab_size`` must be known."""
        token_key, output_key, blocks_key = jax.random.split(key, 3)
        return Llama(
            token_embedding=token_table(token_key, config, config.init_std),
            blocks=stack(lambda k: Block.init(k, config), blocks_key, config.num_layers),
            final_norm=_norm(config),
            output_weight=None if config.tied else token_table(output_key, config, config.init_std),
            config=config,
        )

    @property
    def unembedding(self) -> Unembedding:
        """The output matrix, or the token embedding used a second time."""
        assert self.config.vocab_size is not None
        output = self.output_weight
        weight = self.token_embedding if output is None else output
        return Unembedding(weight, None, self.config.vocab_size)

    @property
    def cache_heads(self) -> tuple[int, int]:
        """The heads of keys and values, which may be fewer than those of queries."""
        return self.config.heads[1:]

    @property
    def window(self) -> int | None:
        """Mistral's sliding window."""
        return self.config.window

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
        angles = scaled_frequencies(self.config.heads[2], self.config.rotary)
        turns = rotation(positions, angles)
        x, caches = apply_blocks(
            lambda block, x, cache, key: block(x, mask, turns, cache, key=key),
            self.blocks,
            lookup(self.token_embedding, input_ids),
            caches,
            key=key,
            remat=remat,
            unroll=unroll,
        )
        return self.final_norm(x), caches


def _norm(config: LlamaConfig) -> RMSNorm:
    return RMSNorm.init(config.embed_dim, epsilon=config.norm_epsilon)


def _attention(key: Key[Array, ""], config: LlamaConfig) -> RotaryAttention:
    attention = RotaryAttention.init(
        key,
        config.embed_dim,
        config.heads,
        stds=(config.init_std, config.init_std),
        dropout_rate=config.dropout,
    )
    if config.attention_bias or config.variant == "qwen2":
        attention = zero_biases(attention, output=config.attention_bias)
    if config.variant == "qwen3":
        attention = unit_norms(attention, config.norm_epsilon)
    return attention

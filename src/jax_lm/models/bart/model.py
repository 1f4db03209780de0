"""BART (Lewis et al. 2019, arXiv:1910.13461).

Notable features: an encoder-decoder; post-norm blocks (the norm comes after the residual sum);
learned positions in each stack, of which the first two rows are never used; embeddings normalised
in each stack; one token embedding for both and for the output, which adds a fixed bias.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from jax_lm.models.bart.config import BartConfig
from jax_lm.models.bart.stacks import (
    DecoderBlock,
    EncoderBlock,
    Stack,
    decoder_stack,
    encoder_stack,
)
from jax_lm.models.base import Unembedding, token_table
from jax_lm.models.encoder_decoder import DecoderCaches, EncoderDecoder, memory_of, with_memory
from jax_lm.models.layers.dropout import DropoutKey, split_key
from jax_lm.models.layers.embedding import lookup
from jax_lm.models.layers.kv_cache import LayerCaches
from jax_lm.models.layers.mask import AttentionMask, bidirectional_mask, token_positions
from jax_lm.models.layers.stack import RematPolicy, apply_blocks, map_blocks


class Bart(EncoderDecoder):
    """The whole model."""

    token_embedding: Float[Array, "vocab embed"]
    encoder: Stack[EncoderBlock]
    decoder: Stack[DecoderBlock]
    output_bias: Float[Array, "vocab"]
    """Never trained: zero, unless imported weights say otherwise."""
    config: BartConfig = eqx.field(static=True)

    @staticmethod
    def init(key: Key[Array, ""], config: BartConfig) -> "Bart":
        """Random weights as published; ``config.vocab_size`` must be known."""
        token_key, encoder_key, decoder_key = jax.random.split(key, 3)
        tokens = token_table(token_key, config, config.init_std)
        if config.pad_id is not None:
            tokens = tokens.at[config.pad_id].set(0.0)
        return Bart(
            token_embedding=tokens,
            encoder=encoder_stack(encoder_key, config),
            decoder=decoder_stack(decoder_key, config),
            output_bias=jnp.zeros(config.padded_vocab_size),
            config=config,
        )

    @property
    def unembedding(self) -> Unembedding:
        """The token embedding, used a second time, and the fixed bias."""
        assert self.config.vocab_size is not None
        bias = jax.lax.stop_gradient(self.output_bias)
        return Unembedding(self.token_embedding, bias, self.config.vocab_size)

    @property
    def cache_heads(self) -> tuple[int, int]:
        """Every head of the decoder has its own keys."""
        num_heads = self.config.decoder.num_heads
        return num_heads, self.config.embed_dim // num_heads

    @property
    def num_decoder_layers(self) -> int:
        """Blocks of the decoder."""
        return self.config.decoder.num_layers

    def encode(
        self,
        input_ids: Int[Array, "batch slots"],
        segment_ids: Int[Array, "batch slots"] | None = None,
        *,
        key: DropoutKey | None = None,
        remat: RematPolicy = "none",
        unroll: bool = False,
    ) -> Float[Array, "batch slots embed"]:
        """The input, read; padding has segment 0, and positions count from each segment's start."""
        embedding_key, blocks_key = split_key(key, 2)
        mask = bidirectional_mask(segment_ids)
        positions = token_positions(input_ids, segment_ids)
        x = self.encoder.embed(self._tokens(input_ids), positions, embedding_key)
        x, _ = apply_blocks(
            lambda block, x, _, key: (block(x, mask, key=key), None),
            self.encoder.blocks,
            x,
            None,
            key=blocks_key,
            remat=remat,
            unroll=unroll,
        )
        return x

    def remember(self, encoded: Float[Array, "batch slots embed"]) -> LayerCaches:
        """Keys and values of the input for every decoder block, stacked where the blocks are."""
        memory: LayerCaches = map_blocks(
            lambda block: block.cross_attention.remember(encoded), self.decoder.blocks
        )
        return memory

    def decoder_hidden(
        self,
        decoder_input_ids: Int[Array, "batch seq"],
        masks: tuple[AttentionMask, AttentionMask],
        encoded: Float[Array, "batch slots embed"] | None,
        caches: DecoderCaches | None,
        *,
        key: DropoutKey | None = None,
        remat: RematPolicy = "none",
        unroll: bool = False,
    ) -> tuple[Float[Array, "batch seq embed"], DecoderCaches | None]:
        """Embed, run the blocks."""
        embedding_key, blocks_key = split_key(key, 2)
        positions = masks[0].query_slots
        if positions is None:
            positions = token_positions(decoder_input_ids, None)
        x = self.decoder.embed(self._tokens(decoder_input_ids), positions, embedding_key)

        def apply(layer: Any, x: Any, own: Any, key: Any) -> Any:
            block, remembered = layer
            memory = memory_of(block.cross_attention, remembered, encoded)
            return block(x, masks, memory, own, key=key)

        x, own = apply_blocks(
            apply,
            with_memory(self.decoder.blocks, caches),
            x,
            None if caches is None else caches.own,
            key=blocks_key,
            remat=remat,
            unroll=unroll,
        )
        return x, None if own is None or caches is None else caches._replace(own=own)

    def _tokens(self, ids: Int[Array, "batch seq"]) -> Float[Array, "batch seq embed"]:
        scale = math.sqrt(self.config.embed_dim) if self.config.scale_embedding else 1.0
        return scale * lookup(self.token_embedding, ids)

"""Encoder-decoders: one stack reads the input, another writes the output."""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, Int

from jax_lm.models.base import Unembedding
from jax_lm.models.layers.attention import Attention
from jax_lm.models.layers.dropout import DropoutKey, split_key
from jax_lm.models.layers.kv_cache import LayerCache, LayerCaches, empty_cache
from jax_lm.models.layers.mask import AttentionMask, cached_mask, causal_mask, cross_mask
from jax_lm.models.layers.stack import RematPolicy


class DecoderCaches(NamedTuple):
    """What decoding need not compute again, of all blocks (or of one, in a block)."""

    own: LayerCaches
    """Keys and values of the output so far."""
    memory: LayerCaches
    """Keys and values of the whole input."""


class Seq2SeqCache(NamedTuple):
    """A batch of inputs that have been read, and how far their outputs have come."""

    layers: DecoderCaches
    segment_ids: Int[Array, "batch slots"] | None
    """Of the input; 0 is padding."""
    lengths: Int[Array, "batch"]
    """Output tokens of each row that the cache holds."""


def with_memory(blocks: Any, caches: DecoderCaches | None) -> Any:
    """Blocks with the input's keys and values, which do not come out of them as caches do."""
    if not isinstance(blocks, list):
        return blocks, None if caches is None else caches.memory
    memory = [None] * len(blocks) if caches is None else caches.memory
    return list(zip(blocks, memory, strict=True))


def memory_of(
    attention: Attention,
    memory: LayerCache | None,
    encoded: Float[Array, "batch slots embed"] | None,
) -> LayerCache:
    """The input's keys and values for a block: as they are remembered, or of the input itself."""
    if memory is not None:
        return memory
    assert encoded is not None, "the input is neither given nor remembered"
    return attention.remember(encoded)


class EncoderDecoder(eqx.Module):
    """What a family of encoder-decoders leaves to be said: its two stacks."""

    config: eqx.AbstractVar[Any]
    decoder: eqx.AbstractVar[Any]
    """The stack that writes; its ``blocks`` are stacked, or a list of them."""

    @property
    @abstractmethod
    def unembedding(self) -> Unembedding:
        """The output matrix."""

    @property
    @abstractmethod
    def cache_heads(self) -> tuple[int, int]:
        """Number and width of the decoder's heads."""

    @property
    @abstractmethod
    def num_decoder_layers(self) -> int:
        """Blocks of the decoder."""

    @property
    def longest(self) -> int | None:
        """Tokens of the longest input, and of the longest output; None: any number."""
        longest: int = self.config.context_length
        return longest

    @abstractmethod
    def encode(
        self,
        input_ids: Int[Array, "batch slots"],
        segment_ids: Int[Array, "batch slots"] | None = None,
        *,
        key: DropoutKey | None = None,
        remat: RematPolicy = "none",
        unroll: bool = False,
    ) -> Float[Array, "batch slots embed"]:
        """The input, read; padding has segment 0."""

    @abstractmethod
    def remember(self, encoded: Float[Array, "batch slots embed"]) -> LayerCaches:
        """Keys and values of the input for every decoder block, stacked where the blocks are."""

    @abstractmethod
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
        """Final hidden states of output positions.

        Args:
            decoder_input_ids: the output so far, or its newest tokens.
            masks: over the output, and over the input.
            encoded: the input, read; None where ``caches`` remember it.
            caches: of earlier tokens and of the input; the first mask then says the slots.
            key: for dropout; None: inference.
            remat: what the backward pass recomputes of the blocks instead of keeping.
            unroll: trace every block on its own.
        """

    def __call__(
        self,
        input_ids: Int[Array, "batch slots"],
        decoder_input_ids: Int[Array, "batch seq"],
        *,
        segment_ids: Int[Array, "batch slots"] | None = None,
        key: DropoutKey | None = None,
        remat: RematPolicy = "none",
        unroll: bool = False,
    ) -> Float[Array, "batch seq embed"]:
        """Final hidden states of the output; each sees the whole input and the output before it.

        Args:
            input_ids: token ids of the input.
            decoder_input_ids: the targets, one place later; padding belongs on the right.
            segment_ids: 0 where the input is padding; None: no padding.
            key: for dropout; None: inference.
            remat: what the backward pass recomputes of the blocks instead of keeping.
            unroll: trace every block on its own.
        """
        keys = split_key(key, 2)
        encoded = self.encode(input_ids, segment_ids, key=keys[0], remat=remat, unroll=unroll)
        masks = causal_mask(), cross_mask(segment_ids)
        options: dict[str, Any] = {"key": keys[1], "remat": remat, "unroll": unroll}
        return self.decoder_hidden(decoder_input_ids, masks, encoded, None, **options)[0]

    def start_cache(
        self,
        encoded: Float[Array, "batch slots embed"],
        segment_ids: Int[Array, "batch slots"] | None,
        slots: int,
        dtype: DTypeLike = jnp.float32,
    ) -> Seq2SeqCache:
        """A cache for outputs of at most ``slots`` tokens to an input that ``encode`` read."""
        heads, head_dim = self.cache_heads
        shape = (self.num_decoder_layers, encoded.shape[0], heads, slots, head_dim)
        memory = self.remember(encoded)
        own = empty_cache(shape, dtype, stacked=not isinstance(memory, list))
        return Seq2SeqCache(DecoderCaches(own.layers, memory), segment_ids, own.lengths)

    def decode(
        self, decoder_input_ids: Int[Array, "batch seq"], cache: Seq2SeqCache
    ) -> tuple[Float[Array, "batch seq embed"], Seq2SeqCache]:
        """Final hidden states of tokens that continue what the cache holds, and the new cache."""
        seq = decoder_input_ids.shape[1]
        positions = cache.lengths[:, None] + jnp.arange(seq)[None, :]
        masks = cached_mask(positions), cross_mask(cache.segment_ids)
        x, layers = self.decoder_hidden(decoder_input_ids, masks, None, cache.layers)
        assert layers is not None
        return x, cache._replace(layers=layers, lengths=cache.lengths + seq)

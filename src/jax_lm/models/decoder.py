"""Decoder-only models: whole sequences, or tokens that continue what a cache holds."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, Int

from jax_lm.models.base import Unembedding
from jax_lm.models.layers.dropout import DropoutKey
from jax_lm.models.layers.kv_cache import KVCache, LayerCaches, empty_cache
from jax_lm.models.layers.mask import AttentionMask, cached_mask, causal_mask, token_positions
from jax_lm.models.layers.stack import RematPolicy


class Decoder(eqx.Module):
    """What a family of decoders leaves to be said: its hidden states under a mask."""

    config: eqx.AbstractVar[Any]
    blocks: eqx.AbstractVar[Any]
    """All blocks, stacked, or a list of them."""

    @property
    @abstractmethod
    def unembedding(self) -> Unembedding:
        """The output matrix."""

    @property
    @abstractmethod
    def cache_heads(self) -> tuple[int, int]:
        """Number and width of the heads whose keys and values a cache keeps."""

    @abstractmethod
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
        """Final hidden states, and the caches with these tokens' keys and values."""

    @property
    def window(self) -> int | None:
        """Positions each token sees at most, itself included; None: all before it."""
        return None

    def __call__(
        self,
        input_ids: Int[Array, "batch seq"],
        *,
        segment_ids: Int[Array, "batch seq"] | None = None,
        positions: Int[Array, "#batch seq"] | None = None,
        key: DropoutKey | None = None,
        remat: RematPolicy = "none",
        unroll: bool = False,
    ) -> Float[Array, "batch seq embed"]:
        """Final hidden states of whole sequences, each position seeing itself and what is before.

        Args:
            input_ids: token ids; padding on the right needs no segment ids: nothing real sees it.
            segment_ids: documents of a row, from 1, that do not see each other; 0 is padding.
            positions: of each token in its document; None: counted from the document's start.
            key: for dropout; None: inference.
            remat: what the backward pass recomputes of the blocks instead of keeping.
            unroll: trace every block on its own.
        """
        if positions is None:
            positions = token_positions(input_ids, segment_ids)
        mask = causal_mask(segment_ids, self.window)
        options: dict[str, Any] = {"key": key, "remat": remat, "unroll": unroll}
        return self.hidden(input_ids, positions, mask, None, **options)[0]

    def empty_cache(self, batch: int, slots: int, dtype: DTypeLike = jnp.float32) -> KVCache:
        """A cache for ``batch`` rows of at most ``slots`` tokens, stacked where the blocks are."""
        heads, head_dim = self.cache_heads
        shape = (self.config.num_layers, batch, heads, slots, head_dim)
        return empty_cache(shape, dtype, stacked=not isinstance(self.blocks, list))

    def decode(
        self, input_ids: Int[Array, "batch seq"], cache: KVCache
    ) -> tuple[Float[Array, "batch seq embed"], KVCache]:
        """Final hidden states of tokens that continue what the cache holds, and the new cache.

        The rows' lengths grow by ``seq``; a caller whose rows are padded on the right sets them
        back to the real lengths: what lies beyond a row's length is never seen, and overwritten.
        """
        seq = input_ids.shape[1]
        positions = cache.lengths[:, None] + jnp.arange(seq)[None, :]
        mask = cached_mask(positions, self.window)
        x, layers = self.hidden(input_ids, positions, mask, cache.layers)
        assert layers is not None
        return x, KVCache(layers, cache.lengths + seq)

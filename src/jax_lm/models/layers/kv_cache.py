"""Keys and values of past tokens, kept so that decoding does not compute them again."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, Int


class LayerCache(NamedTuple):
    """One layer's keys and values; slot s holds position s of its row."""

    key: Float[Array, "batch heads slots head_dim"]
    value: Float[Array, "batch heads slots head_dim"]


class KVCache(NamedTuple):
    """All layers' caches, stacked, and how many slots of each row are filled."""

    layers: LayerCache
    lengths: Int[Array, "batch"]


def empty_cache(shape: tuple[int, int, int, int, int], dtype: DTypeLike = jnp.float32) -> KVCache:
    """A cache of shape (layers, batch, heads, slots, head_dim) with nothing in it."""
    layers = LayerCache(jnp.zeros(shape, dtype), jnp.zeros(shape, dtype))
    return KVCache(layers, jnp.zeros(shape[1], jnp.int32))


def write(
    cache: LayerCache,
    key: Float[Array, "batch heads seq head_dim"],
    value: Float[Array, "batch heads seq head_dim"],
    positions: Int[Array, "batch seq"],
) -> LayerCache:
    """Store keys and values at their positions, which may differ from row to row."""
    rows = jnp.arange(key.shape[0])[:, None]
    # Index arrays around a slice put their axes first: values go in as [batch, seq, heads, dim].
    return LayerCache(
        cache.key.at[rows, :, positions].set(key.swapaxes(1, 2).astype(cache.key.dtype)),
        cache.value.at[rows, :, positions].set(value.swapaxes(1, 2).astype(cache.value.dtype)),
    )

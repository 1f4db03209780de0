"""Keys and values of past tokens, kept so that decoding does not compute them again."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, Int


class LayerCache(NamedTuple):
    """One layer's keys and values; slot s holds position s of its row."""

    key: Float[Array, "batch heads slots head_dim"]
    value: Float[Array, "batch heads slots head_dim"]


LayerCaches = LayerCache | list[LayerCache]
"""Caches of all layers: stacked on a leading axis, or a list."""


class KVCache(NamedTuple):
    """All layers' caches, and how many slots of each row are filled."""

    layers: LayerCaches
    lengths: Int[Array, "batch"]


def empty_cache(
    shape: tuple[int, int, int, int, int],
    dtype: DTypeLike = jnp.float32,
    *,
    stacked: bool = True,
) -> KVCache:
    """A cache of shape (layers, batch, heads, slots, head_dim) with nothing in it.

    Args:
        shape: of keys, and of values.
        dtype: of both.
        stacked: one array for all layers, or else a list.
    """

    def layer(shape: tuple[int, ...]) -> LayerCache:
        return LayerCache(jnp.zeros(shape, dtype), jnp.zeros(shape, dtype))

    layers = layer(shape) if stacked else [layer(shape[1:]) for _ in range(shape[0])]
    return KVCache(layers, jnp.zeros(shape[1], jnp.int32))


def num_slots(caches: LayerCaches) -> int:
    """Slots of every row."""
    layer = caches[0] if isinstance(caches, list) else caches
    slots: int = layer.key.shape[-2]
    return slots


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

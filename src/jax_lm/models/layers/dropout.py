"""Dropout as a function of a key and of the row; no key means inference."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key


class DropoutKey(NamedTuple):
    """What the random choices of a batch depend on, however its rows are shared out.

    Each row draws from the key and its own number, so that neither micro-batches, nor devices, nor
    the order of the rows change what is dropped; and no device needs another's draws.
    """

    key: Key[Array, ""]
    rows: Int[Array, "batch"]
    """The number of each row in the global batch."""


def dropout(
    x: Float[Array, "batch *shape"], rate: float, key: DropoutKey | None
) -> Float[Array, "batch *shape"]:
    """Zero entries with probability ``rate`` and scale the rest by ``1 / (1 - rate)``.

    Srivastava et al. 2014. Without a key, or at rate 0, ``x`` itself.
    """
    if key is None or rate == 0.0:
        return x

    def kept(row: Int[Array, ""]) -> Array:
        return jax.random.bernoulli(jax.random.fold_in(key.key, row), 1.0 - rate, x.shape[1:])

    return jnp.where(jax.vmap(kept)(key.rows), x / (1.0 - rate), jnp.zeros((), x.dtype))


def split_key(key: DropoutKey | None, count: int) -> list[DropoutKey | None]:
    """``count`` independent keys of the same rows, or ``count`` times None."""
    if key is None:
        return [None] * count
    return [DropoutKey(part, key.rows) for part in jax.random.split(key.key, count)]

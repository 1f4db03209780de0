"""Dropout as a function of a key; no key means inference."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key


def dropout(
    x: Float[Array, "*shape"], rate: float, key: Key[Array, ""] | None
) -> Float[Array, "*shape"]:
    """Zero entries with probability ``rate`` and scale the rest by ``1 / (1 - rate)``.

    Srivastava et al. 2014. Without a key, or at rate 0, ``x`` itself.
    """
    if key is None or rate == 0.0:
        return x
    keep = jax.random.bernoulli(key, 1.0 - rate, x.shape)
    return jnp.where(keep, x / (1.0 - rate), jnp.zeros((), x.dtype))


def split_key(key: Key[Array, ""] | None, count: int) -> list[Key[Array, ""] | None]:
    """``count`` independent keys, or ``count`` times None."""
    return [None] * count if key is None else list(jax.random.split(key, count))

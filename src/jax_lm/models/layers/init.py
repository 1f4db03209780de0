"""Random initialisation of weights."""

from collections.abc import Sequence

import jax
from jaxtyping import Array, Float, Key


def normal(
    key: Key[Array, ""], shape: Sequence[int], standard_deviation: float
) -> Float[Array, "..."]:
    """Independent normal values with mean zero, float32."""
    return standard_deviation * jax.random.normal(key, tuple(shape))

"""An exponential average of the weights, to evaluate and to export."""

import math
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

Model = TypeVar("Model")


def averaged(previous: Model, model: Model, decay: float, updates: Int[Array, ""] | int) -> Model:
    """The average after one more update: free of bias towards the start, in float32.

    After t updates the weights of update i count ``decay ** (t - i)``, divided by the sum of these:
    the correction of Kingma and Ba 2015 (arXiv:1412.6980, section 3), so that the random weights
    of the start count nothing and the first average is the first update's weights.

    Args:
        previous: the average before; before the first update, anything of the same shape.
        model: the weights after the update.
        decay: of what is already there, from 0 to below 1.
        updates: how many have been averaged, with this one; 1 at the first.
    """
    share = _share(decay, jnp.asarray(updates, jnp.float32))
    average: Model = jax.tree.map(
        lambda old, new: old + share * (new.astype(jnp.float32) - old), previous, model
    )
    return average


def _share(decay: float, updates: Float[Array, ""]) -> Float[Array, ""]:
    """(1 - decay) / (1 - decay ** updates), without cancellation where decay is close to 1."""
    if decay == 0:
        return jnp.ones(())
    return (1.0 - decay) / -jnp.expm1(updates * math.log(decay))

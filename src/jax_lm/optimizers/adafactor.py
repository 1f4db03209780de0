"""Adafactor's direction for stacked parameters with axes of heads."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from jax_lm.optimizers.matrices import find_matrices, sides
from jax_lm.optimizers.patterns import dotted, is_stacked

SMALLEST_FACTORED = 128
"""Matrices with a shorter side keep a mean of squares for every element."""
CLIP_THRESHOLD = 1.0
"""Largest root mean square of an update, before it is scaled."""
LEAST_SCALE = 1e-3
"""What an update is multiplied by where the parameter itself is smaller."""


def scale_by_adafactor() -> optax.GradientTransformation:
    """Factored second moments (Shazeer and Stern 2018, arXiv:1804.04235), as T5 was trained.

    Updates are clipped, and multiplied by the root mean square of the parameter, so the learning
    rate is relative to the size of each (1e-2 is common). Both are taken of every layer by itself.
    The decay of the means rises as 1 - t^-0.8.
    """
    factored = optax.scale_by_factored_rms(min_dim_size_to_factor=SMALLEST_FACTORED)

    def init(params: Any) -> Any:
        return factored.init(_merge_heads(params))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        merged, state = factored.update(_merge_heads(updates), state, _merge_heads(params))
        return jax.tree_util.tree_map_with_path(_scaled, merged, params), state

    return optax.GradientTransformation(init, update)


def _scaled(
    path: tuple[Any, ...], update: Float[Array, "..."], param: Float[Array, "..."]
) -> Float[Array, "..."]:
    update = update.reshape(param.shape)
    stacked = is_stacked(dotted(path))
    clip = jnp.maximum(1.0, _root_mean_square(update, stacked) / CLIP_THRESHOLD)
    return update / clip * jnp.maximum(LEAST_SCALE, _root_mean_square(param, stacked))


def _root_mean_square(array: Float[Array, "..."], stacked: bool) -> Float[Array, "..."]:
    """Of every layer of a stacked parameter."""
    axes = tuple(range(1 if stacked else 0, array.ndim))
    return jnp.sqrt(jnp.mean(jnp.square(array), axis=axes, keepdims=True))


def _merge_heads(params: Any) -> Any:
    """Matrices with one axis of inputs and one of outputs, where they are large enough to factor.

    Optax factors the two longest axes, and would take heads or head_dim for one of them.
    """
    matrices = find_matrices(params)

    def merged(path: tuple[Any, ...], leaf: Any) -> Any:
        matrix = matrices.get(dotted(path))
        if matrix is None or min(sides(leaf.shape, matrix)) < SMALLEST_FACTORED:
            return leaf
        return leaf.reshape(*leaf.shape[: matrix.inputs[0]], *sides(leaf.shape, matrix))

    return jax.tree_util.tree_map_with_path(merged, params)

"""Another vocabulary for a model: rows cut, or rows added."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from jax_lm.models.axes import AxisNames, parameter_axes
from jax_lm.models.registry import abstract_model


def resize_vocabulary(model: Any, vocab_size: int) -> Any:
    """The model for another number of ids.

    New rows of embeddings and output matrices are the mean of the rows there are, so that at
    first no new token is more probable than the others (Hewitt 2021, "Initializing New Word
    Embeddings for Pretrained Language Models").

    Args:
        model: of any family.
        vocab_size: ids the result has; fewer than now cuts the last ones.
    """
    config = dataclasses.replace(model.config, vocab_size=vocab_size)
    like = abstract_model(config)
    names = jax.tree.leaves(parameter_axes(model), is_leaf=lambda leaf: isinstance(leaf, AxisNames))
    leaves = [
        _resized(leaf, axes, model.config.vocab_size, vocab_size, abstract.shape)
        for leaf, axes, abstract in zip(
            jax.tree.leaves(model), names, jax.tree.leaves(like), strict=True
        )
    ]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _resized(leaf: Array, axes: AxisNames, old: int, new: int, shape: tuple[int, ...]) -> Array:
    if "vocab" not in axes:
        return leaf
    axis = axes.index("vocab")
    rows = jnp.moveaxis(leaf, axis, 0)[:old]
    added = jnp.broadcast_to(
        rows.mean(axis=0, keepdims=True, dtype=jnp.float32).astype(leaf.dtype),
        (max(new - old, 0), *rows.shape[1:]),
    )
    padding = jnp.zeros((shape[axis] - new, *rows.shape[1:]), leaf.dtype)
    return jnp.moveaxis(jnp.concatenate([rows[:new], added, padding]), 0, axis)

"""The dtype of a computation: weights in it, what normalises and shifts in float32."""

from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import DTypeLike

Model = TypeVar("Model")
FLOAT32 = ("scale", "bucket_bias", "output_bias", ".bias")
"""Endings of parameters that are used in float32: of norms, relative positions and logits."""


def in_dtype(model: Model, dtype: DTypeLike) -> Model:
    """``model`` with its weights in ``dtype``; its norms, position and output biases in float32."""

    def cast(path: tuple[object, ...], leaf: jax.Array) -> jax.Array:
        kept = jax.tree_util.keystr(path).endswith(FLOAT32)
        return leaf.astype(jnp.float32 if kept else dtype)

    cast_model: Model = jax.tree_util.tree_map_with_path(cast, model)
    return cast_model

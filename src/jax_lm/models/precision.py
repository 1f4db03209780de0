"""The dtype of a computation: weights in it, what normalises and shifts in float32."""

from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import DTypeLike

Model = TypeVar("Model")
NORMS_AND_POSITIONS = ("scale", ".bias", "bucket_bias")
"""How the paths of parameters end that are added to or multiplied with what is in float32."""
LOGITS = ".output_bias"
"""The path of the output matrix's bias."""


def in_dtype(model: Model, dtype: DTypeLike) -> Model:
    """``model`` with its weights in ``dtype``; its norms, position and output biases in float32."""

    def cast(path: tuple[object, ...], leaf: jax.Array) -> jax.Array:
        name = jax.tree_util.keystr(path)
        kept = name.endswith(NORMS_AND_POSITIONS) or name == LOGITS
        return leaf.astype(jnp.float32 if kept else dtype)

    cast_model: Model = jax.tree_util.tree_map_with_path(cast, model)
    return cast_model

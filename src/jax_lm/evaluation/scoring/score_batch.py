"""The compiled part of evaluation: -log p of every target of a batch."""

from functools import partial
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jax_lm.losses import token_losses
from jax_lm.models.forward import Model, forward
from jax_lm.models.layers.placement import placed
from jax_lm.models.precision import in_dtype
from jax_lm.types import Batch

Tree = TypeVar("Tree")


@partial(jax.jit, static_argnames="dtype")
def score_batch(
    model: Model,
    batch: Batch,
    places: Int[Array, "batch target_seq"] | None = None,
    *,
    dtype: str = "float32",
) -> tuple[Float[Array, "batch target_seq"], Bool[Array, "batch target_seq"]]:
    """-log p of every target in nats, and whether it was the most probable token.

    Args:
        model: of any family.
        batch: its arrays on the device.
        places: position of each target's hidden state; None: a target for every position.
        dtype: of the model's computation; softmax and loss are float32.
    """
    compute = in_dtype(model, dtype)
    # GPUs would multiply float32 matrices in fewer bits unless told otherwise.
    with jax.default_matmul_precision("float32" if dtype == "float32" else "default"):
        hidden = forward(compute, batch)
        if places is not None:
            hidden = jnp.take_along_axis(hidden, jnp.asarray(places)[:, :, None], axis=1)
        losses = token_losses(hidden, compute.unembedding, jnp.asarray(batch.targets))
    # Each process reads all of them.
    return placed(losses.losses, "whole whole"), placed(losses.correct, "whole whole")


def pad_rows(batch: Tree, rows: int) -> Tree:
    """``batch`` with zero rows added up to ``rows``, so that every batch has one shape."""

    def pad(array: np.ndarray) -> np.ndarray:
        return np.pad(array, [(0, rows - len(array))] + [(0, 0)] * (array.ndim - 1))

    padded: Tree = jax.tree.map(pad, batch)
    return padded

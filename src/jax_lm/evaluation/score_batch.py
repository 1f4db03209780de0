"""The compiled part of evaluation: -log p of every target of a batch."""

from functools import partial

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jax_lm.losses import token_losses
from jax_lm.models.gpt2 import GPT2


@partial(jax.jit, static_argnames="dtype")
def score_batch(
    model: GPT2,
    input_ids: Int[Array, "batch seq"],
    targets: Int[Array, "batch seq"],
    *,
    dtype: str = "float32",
) -> tuple[Float[Array, "batch seq"], Bool[Array, "batch seq"]]:
    """-log p of every target in nats, and whether it was the most probable token.

    ``dtype`` is that of the model's computation; softmax and loss are float32.
    """
    compute = jax.tree.map(lambda leaf: leaf.astype(dtype), model)
    return token_losses(compute(input_ids), compute.unembedding, targets)


def pad_rows(array: np.ndarray, rows: int) -> np.ndarray:
    """``array`` with zero rows added up to ``rows``, so that every batch has one shape."""
    missing = rows - len(array)
    return np.pad(array, [(0, missing)] + [(0, 0)] * (array.ndim - 1)) if missing else array

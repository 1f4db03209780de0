"""Real tokens of a batch, over all processes."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jax_lm.types import Batch

TokenCount = Callable[[Batch, Batch], Any]


def make_token_count() -> TokenCount:
    """What counts the real tokens of a batch: of inputs, where padding is marked, and outputs.

    Returns:
        A function of the rows that this process read and of the whole batch on the devices. One
        process counts what it read; several count on the devices, and whoever reads the number
        waits for those.
    """
    if jax.process_count() == 1:
        return lambda own, _: _num_tokens(own)
    count = jax.jit(_num_tokens)
    return lambda _, placed: count(placed)


def _num_tokens(batch: Batch) -> Any:
    if batch.segment_ids is None:
        return _nonzero(batch.loss_mask)
    outputs = 0 if batch.decoder_input_ids is None else _nonzero(batch.loss_mask)
    return _nonzero(batch.segment_ids) + outputs


def _nonzero(array: Any) -> Any:
    if isinstance(array, np.ndarray):
        return np.count_nonzero(array)
    return (array != 0).sum()

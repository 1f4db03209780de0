"""Causal language modelling: every position predicts the token after it."""

import numpy as np

from jax_lm.types import Batch, Rows


def causal_lm(rows: Rows) -> Batch:
    """Targets are the labels where rows have them, else the ids shifted by one.

    Rows with labels are ``T`` wide, rows without ``T + 1``; the batch is ``T`` wide either way.
    Which targets are padding is known from the rows' lengths, never from an id's value.
    """
    if rows.labels is None:
        inputs, targets = rows.input_ids[:, :-1], rows.input_ids[:, 1:]
        real = np.arange(1, rows.input_ids.shape[1])[None, :] < rows.lengths[:, None]
        return Batch(inputs.astype(np.int32), targets.astype(np.int32), real.astype(np.float32))
    scored = rows.labels >= 0
    weights = scored.astype(np.float32)
    if rows.loss_weights is not None:
        weights = weights * rows.loss_weights
    return Batch(
        rows.input_ids.astype(np.int32), np.where(scored, rows.labels, 0).astype(np.int32), weights
    )

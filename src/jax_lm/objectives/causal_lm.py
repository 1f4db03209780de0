"""Causal language modelling: every position predicts the token after it."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from jax_lm.objectives.base import RowDraws
from jax_lm.types import Batch, Rows


@dataclass(frozen=True, kw_only=True)
class CausalLMConfig:
    """Every token is predicted from those before it; nothing is drawn."""

    name: Literal["causal-lm"] = "causal-lm"
    """The objective."""


def causal_lm(rows: Rows, draws: RowDraws | None = None) -> Batch:
    """Targets are the labels where rows have them, else the ids shifted by one.

    Rows with labels are ``T`` wide, rows without ``T + 1``; the batch is ``T`` wide either way.
    Which targets are padding is known from the rows' lengths, never from an id's value.
    """
    segments = rows.segment_ids
    if rows.labels is None:
        inputs, targets = rows.input_ids[:, :-1], rows.input_ids[:, 1:]
        weights = (np.arange(1, rows.input_ids.shape[1]) < rows.lengths[:, None]).astype(np.float32)
    else:
        scored = rows.labels >= 0
        inputs, targets = rows.input_ids, np.where(scored, rows.labels, 0)
        weights = scored.astype(np.float32)
        if rows.loss_weights is not None:
            weights = weights * rows.loss_weights
    return Batch(
        inputs.astype(np.int32),
        targets.astype(np.int32),
        weights,
        None if segments is None else segments[:, : inputs.shape[1]].astype(np.int32),
    )

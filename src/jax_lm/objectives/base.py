"""What a model is trained to predict: the one Protocol every objective satisfies."""

from typing import Protocol

from jax_lm.types import Batch, Rows


class Objective(Protocol):
    """Turns feature rows into the batch a model trains on; a pure function of its arguments."""

    def __call__(self, rows: Rows) -> Batch:
        """Inputs, targets and target weights of every row."""
        ...

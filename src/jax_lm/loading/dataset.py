"""The order of training rows: a pure function of (seed, position)."""

from typing import Protocol

import numpy as np
from jaxtyping import Int

from jax_lm.loading.permutation import Permutation


class Order(Protocol):
    """Which row is read at each position of an endless run over the data."""

    def rows(self, start: int, stop: int) -> Int[np.ndarray, "positions"]:
        """Row indices at positions ``start`` to ``stop - 1`` (int64)."""
        ...


class RowOrder:
    """Which row is read at each position of an endless run over the data.

    Position p lies in epoch ``p // num_rows``; every epoch visits each row once, in an order of
    its own. Nothing is stored, so any position is reached at once.
    """

    def __init__(self, num_rows: int, seed: int) -> None:
        """Args: num_rows, at least 1; seed of the shuffle."""
        self.num_rows = num_rows
        self.seed = seed
        self._permutations: dict[int, Permutation] = {}

    def rows(self, start: int, stop: int) -> Int[np.ndarray, "positions"]:
        """Row indices at positions ``start`` to ``stop - 1`` (int64)."""
        epochs, offsets = np.divmod(np.arange(start, stop, dtype=np.int64), self.num_rows)
        rows = np.empty_like(offsets)
        for epoch in np.unique(epochs):
            here = epochs == epoch
            rows[here] = self._permutation(int(epoch))(offsets[here])
        return rows

    def _permutation(self, epoch: int) -> Permutation:
        if epoch not in self._permutations:
            self._permutations = {epoch: Permutation(self.num_rows, self.seed, epoch)}
        return self._permutations[epoch]

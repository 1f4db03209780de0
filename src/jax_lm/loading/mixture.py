"""Several feature sets as one, mixed in fixed shares; any position is reached at once."""

import hashlib
import json
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from jax_lm.errors import JaxLMError
from jax_lm.loading.dataset import RowOrder
from jax_lm.loading.permutation import Permutation
from jax_lm.loading.rows import RowStore
from jax_lm.types import Rows

BLOCK = 10_000
"""Rows over which the shares are exact, to one row."""


class JoinedRows:
    """The rows of several sets, one set after another."""

    def __init__(self, stores: Sequence[RowStore]) -> None:
        """Join stores.

        Raises:
            JaxLMError: their rows differ in length or columns.
        """
        self.stores = stores
        first = stores[0].manifest
        for store in stores[1:]:
            other = store.manifest
            if (other.row_length, dict(other.columns)) != (first.row_length, dict(first.columns)):
                raise JaxLMError(
                    f"{other.source} has rows of {other.row_length} ids with columns "
                    f"{', '.join(other.columns)}, {first.source} has {first.row_length} with "
                    f"{', '.join(first.columns)}: preprocess both with the same settings (--labels "
                    "gives packed rows explicit labels)"
                )
        self._starts = np.cumsum([0, *map(len, stores)])

    @property
    def fingerprint(self) -> str:
        """Of all sets, in order."""
        prints = [store.fingerprint for store in self.stores]
        return hashlib.sha256(json.dumps(prints).encode()).hexdigest()

    def __len__(self) -> int:
        """Rows of all sets."""
        return int(self._starts[-1])

    def take(self, indices: Int[np.ndarray, "batch"]) -> Rows:
        """The rows at ``indices``, counted through all sets, copied into memory."""
        which = np.searchsorted(self._starts, indices, side="right") - 1
        taken: list[np.ndarray | None] = [None] * len(Rows._fields)
        for number in np.unique(which):
            places = np.flatnonzero(which == number)
            rows = self.stores[number].take(indices[places] - self._starts[number])
            taken = [_put(*pair, places, len(indices)) for pair in zip(taken, rows, strict=True)]
        return Rows(*taken)  # type: ignore[arg-type]  # ids and lengths are always there


class MixedOrder:
    """Which row is read at each position, so that each set has its share of them.

    In every ``BLOCK`` positions a set has its share to the nearest row (largest remainders), at
    places drawn from the seed; its own rows come in the order of ``RowOrder``, so each is read
    once before any is read again. A pure function of the seed and the position.
    """

    def __init__(self, sizes: Sequence[int], weights: Sequence[float], seed: int) -> None:
        """Mix sets of ``sizes`` rows by ``weights``, which need not sum to 1."""
        self._counts = _shares(np.asarray(weights, float))
        self._orders = [RowOrder(size, seed + index) for index, size in enumerate(sizes)]
        self._starts = np.cumsum([0, *sizes])
        self._assigned = np.repeat(np.arange(len(sizes)), self._counts)
        self._seed = seed
        self._block: tuple[int, np.ndarray] | None = None

    def rows(self, start: int, stop: int) -> Int[np.ndarray, "positions"]:
        """Row indices at positions ``start`` to ``stop - 1``, counted through all sets (int64)."""
        positions = np.arange(start, stop, dtype=np.int64)
        blocks = positions // BLOCK
        parts = [self._rows_of(int(block))[positions[blocks == block] % BLOCK]
                 for block in np.unique(blocks)]  # fmt: skip
        return np.concatenate([np.empty(0, np.int64), *parts])

    def _rows_of(self, block: int) -> Int[np.ndarray, "block"]:
        if self._block is None or self._block[0] != block:
            self._block = (block, self._make(block))
        return self._block[1]

    def _make(self, block: int) -> Int[np.ndarray, "block"]:
        places = Permutation(BLOCK, self._seed, block)(np.arange(BLOCK))
        which = self._assigned[places]
        rows = np.empty(BLOCK, np.int64)
        for number, order in enumerate(self._orders):
            count = int(self._counts[number])
            drawn = order.rows(block * count, (block + 1) * count)
            rows[which == number] = drawn + self._starts[number]
        return rows


def _shares(weights: np.ndarray) -> Int[np.ndarray, "sets"]:
    """``BLOCK`` places by weight, rounded so that they add up (largest remainders)."""
    exact = BLOCK * weights / weights.sum()
    counts = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: BLOCK - counts.sum()]] += 1
    return np.asarray(counts)


def _put(
    whole: np.ndarray | None, part: np.ndarray | None, places: np.ndarray, rows: int
) -> np.ndarray | None:
    """``part`` at ``places`` of an array of ``rows``; lists of ends are filled up with -1."""
    if part is None:
        return whole
    if whole is None:
        whole = np.zeros((rows, *part.shape[1:]), part.dtype)
    if part.ndim == 2 and part.shape[1] != whole.shape[1]:  # ends of sentences: ragged
        width = max(part.shape[1], whole.shape[1])
        whole, part = _filled_up(whole, width), _filled_up(part, width)
    whole[places] = part
    return whole


def _filled_up(values: np.ndarray, width: int) -> np.ndarray:
    more = width - values.shape[1]
    return np.pad(values, ((0, 0), (0, more)), constant_values=-1)

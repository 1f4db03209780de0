"""Batches in training order, prepared ahead on a thread; the whole state is one integer."""

import queue
import threading
from collections.abc import Callable, Iterator
from copy import deepcopy
from time import monotonic
from types import TracebackType
from typing import Self

import numpy as np
from jaxtyping import Int

from jax_lm.loading.dataset import Order, RowOrder
from jax_lm.loading.rows import RowSource
from jax_lm.objectives.base import Objective, RowDraws
from jax_lm.types import Batch

POLL_SECONDS = 0.5
"""How often somebody who waits for a batch may think better of it."""
CLOSE_SECONDS = 5.0


class Loader:
    """Yields this host's rows of every batch, from any position on.

    Step s reads positions [s * batch_size, (s + 1) * batch_size) of the row order, whatever the
    number of hosts: each host takes those of them that its devices hold.
    """

    def __init__(
        self,
        rows: RowSource,
        objective: Objective,
        *,
        batch_size: int,
        seed: int,
        position: int = 0,
        own_rows: Int[np.ndarray, "rows"] | None = None,
        prefetch: int = 2,
        order: Order | None = None,
    ) -> None:
        """Start preparing batches.

        Args:
            rows: the feature rows.
            objective: turns rows into a batch.
            batch_size: rows of a batch over all hosts.
            seed: of the shuffle, and of what the objective draws.
            position: rows consumed so far, over all hosts.
            own_rows: numbers, within a batch, of the rows that this host reads; None: all.
            prefetch: batches prepared ahead.
            order: which row is read at each position; None: every row once an epoch, shuffled.
        """
        self.position = position
        self._batch_size = batch_size
        self._own_rows = np.arange(batch_size, dtype=np.int64) if own_rows is None else own_rows
        self._rows, self._objective = rows, objective
        self._order = RowOrder(len(rows), seed) if order is None else order
        self._seed = seed
        self._queue: queue.Queue[Batch | Exception] = queue.Queue(maxsize=prefetch)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._prepare, args=(position,), daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[Batch]:
        """The batches, without end; ``position`` counts a batch once it is handed out."""
        while (batch := self.next()) is not None:
            yield batch

    def next(self, *, until: Callable[[], bool] = lambda: False) -> Batch | None:
        """The next batch; ``position`` then counts it.

        Args:
            until: asked while there is none yet; once true, nothing is waited for any longer.

        Returns:
            None where ``until`` ended the wait.

        Raises:
            Exception: what reading or preparing the batch raised.
        """
        while True:
            try:
                item = self._queue.get(timeout=POLL_SECONDS)
            except queue.Empty:
                if until():
                    return None
                continue
            if isinstance(item, Exception):
                raise item
            self.position += self._batch_size
            return item

    def rows_at(self, position: int) -> list[int]:
        """Row indices of the whole batch that starts at ``position``."""
        return [int(row) for row in self._order.rows(position, position + self._batch_size)]

    def close(self) -> None:
        """Stop the thread; calling it again does nothing.

        A thread that a disk keeps waiting is left to itself after a while: it ends with the
        process.
        """
        self._closed.set()
        deadline = monotonic() + CLOSE_SECONDS
        while self._thread.is_alive() and monotonic() < deadline:
            try:
                self._queue.get(timeout=0.05)
            except queue.Empty:
                continue

    def __enter__(self) -> Self:
        """The loader itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def _prepare(self, position: int) -> None:
        order = deepcopy(self._order)  # its cache is this thread's own
        while not self._closed.is_set():
            try:
                item: Batch | Exception = self._batch(order, position)
            except Exception as error:
                item = error
            self._queue.put(item)
            if isinstance(item, Exception):
                return
            position += self._batch_size

    def _batch(self, order: Order, position: int) -> Batch:
        rows = order.rows(position, position + self._batch_size)[self._own_rows]
        draws = RowDraws(self._seed, position + self._own_rows)
        return self._objective(self._rows.take(rows), draws)

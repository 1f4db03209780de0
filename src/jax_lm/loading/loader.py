"""Batches in training order, prepared ahead on a thread; the whole state is one integer."""

import queue
import threading
from collections.abc import Iterator
from copy import deepcopy
from types import TracebackType
from typing import Self

import numpy as np

from jax_lm.errors import JaxLMError
from jax_lm.loading.dataset import Order, RowOrder
from jax_lm.loading.rows import RowSource
from jax_lm.objectives.base import Objective, RowDraws
from jax_lm.types import Batch


class Loader:
    """Yields this host's part of every batch, from any position on.

    Step s reads positions [s * batch_size, (s + 1) * batch_size) of the row order, whatever the
    number of hosts: host h takes the h-th of ``num_hosts`` equal slices of that range.
    """

    def __init__(
        self,
        rows: RowSource,
        objective: Objective,
        *,
        batch_size: int,
        seed: int,
        position: int = 0,
        host: tuple[int, int] = (0, 1),
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
            host: (this host's index, number of hosts).
            prefetch: batches prepared ahead.
            order: which row is read at each position; None: every row once an epoch, shuffled.

        Raises:
            JaxLMError: the batch does not divide by the number of hosts.
        """
        index, count = host
        if batch_size % count:
            raise JaxLMError(f"batch size {batch_size} is not a multiple of the {count} hosts")
        local = batch_size // count
        self.position = position
        self._batch_size = batch_size
        self._slice = (index * local, (index + 1) * local)
        self._rows, self._objective = rows, objective
        self._order = RowOrder(len(rows), seed) if order is None else order
        self._seed = seed
        self._queue: queue.Queue[Batch | Exception] = queue.Queue(maxsize=prefetch)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._prepare, args=(position,), daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[Batch]:
        """The batches, without end; ``position`` counts a batch once it is handed out."""
        while True:
            item = self._queue.get()
            if isinstance(item, Exception):
                raise item
            self.position += self._batch_size
            yield item

    def rows_at(self, position: int) -> list[int]:
        """Row indices of this host's part of the batch that starts at ``position``."""
        start, stop = self._slice
        return [int(row) for row in self._order.rows(position + start, position + stop)]

    def close(self) -> None:
        """Stop the thread; calling it again does nothing."""
        self._closed.set()
        while self._thread.is_alive():
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
        start, stop = self._slice
        while not self._closed.is_set():
            try:
                item: Batch | Exception = self._batch(order, position + start, position + stop)
            except Exception as error:
                item = error
            self._queue.put(item)
            if isinstance(item, Exception):
                return
            position += self._batch_size

    def _batch(self, order: Order, start: int, stop: int) -> Batch:
        draws = RowDraws(self._seed, np.arange(start, stop, dtype=np.int64))
        return self._objective(self._rows.take(order.rows(start, stop)), draws)

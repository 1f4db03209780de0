"""Shards made at once on one machine, by threads of one process."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from jax_lm.preprocessing.shard_work import STOPPING
from jax_lm.preprocessing.shards import Run


@dataclass(frozen=True)
class InThreads:
    """Writes runs of shards, ``count`` at a time.

    Beam's own threads talk through servers that outlive a Ctrl-C, and are dealt their shares
    before the work begins; here whoever is free takes the next run.
    """

    write: Callable[[Run], int]
    count: int

    def __call__(self, runs: Sequence[Run]) -> int:
        """Write every run; returns how many shards were written.

        An interruption lets each thread end its shard and is then raised.
        """
        STOPPING.clear()
        with ThreadPoolExecutor(self.count) as pool:
            try:
                return sum(pool.map(self.write, runs))
            except BaseException:
                STOPPING.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

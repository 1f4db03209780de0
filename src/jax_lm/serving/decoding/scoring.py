"""Scoring outputs beside the decoding: in a thread of its own, one request after the other."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from jax_lm.serving.decoding.jobs import QueueFull

Pair = tuple[Sequence[int], Sequence[int]]
Score = Callable[[Sequence[Pair]], list[float]]
"""Log-probabilities of outputs given inputs."""
AT_ONCE = 16
"""Pairs after which a request that nobody waits for any more is given up."""


class Scoring:
    """Scores pairs, and refuses where too many wait already."""

    def __init__(self, score: Score, *, max_queue: int) -> None:
        self._score = score
        self._room = max_queue + 1
        self._executor = ThreadPoolExecutor(1, "scoring")

    async def log_probs(self, pairs: Sequence[Pair]) -> list[float]:
        """The log-probability of each output.

        Raises:
            QueueFull: too many requests wait.
        """
        if self._room < 1:
            raise QueueFull
        self._room -= 1
        try:
            scores: list[float] = []
            loop = asyncio.get_running_loop()
            for start in range(0, len(pairs), AT_ONCE):
                part = pairs[start : start + AT_ONCE]
                scores += await loop.run_in_executor(self._executor, self._score, part)
            return scores
        finally:
            self._room += 1

    def close(self) -> None:
        """Take no more."""
        self._executor.shutdown(wait=False, cancel_futures=True)

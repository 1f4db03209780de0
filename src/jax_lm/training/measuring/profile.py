"""A trace of a few steps: what ran when, on every device and on the host."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import jax
from jaxtyping import PyTree

UNTRACED_STEPS = 3
"""The first steps compile and fill caches: they show nothing of those that follow."""


class Profile:
    """Traces so many steps of a process, after the first few, into a directory."""

    def __init__(self, directory: Path, steps: int, say: Callable[[str], None]) -> None:
        """Trace ``steps`` steps into ``directory`` (0: none); ``say`` is told where."""
        self._directory, self._say = directory, say
        self._first, self._last = UNTRACED_STEPS + 1, UNTRACED_STEPS + steps
        self._taken = 0
        self._tracing = False

    @contextmanager
    def step(self, number: int, state: PyTree) -> Iterator[None]:
        """One training step.

        Args:
            number: of the step, as the trace names it.
            state: waited for before the trace begins, so that nothing earlier is in it.
        """
        self._taken += 1
        if self._taken == self._first <= self._last:
            jax.block_until_ready(state)
            jax.profiler.start_trace(str(self._directory), create_perfetto_trace=True)
            self._tracing = True
        if not self._tracing:
            yield
            return
        with jax.profiler.StepTraceAnnotation("train", step_num=number):
            yield

    def after(self, state: PyTree) -> None:
        """End the trace once its last step is done; ``state`` is what that step gave."""
        if self._tracing and self._taken >= self._last:
            jax.block_until_ready(state)
            self.close()

    def close(self) -> None:
        """End the trace, if there is one; calling it again does nothing."""
        if not self._tracing:
            return
        self._tracing = False
        jax.profiler.stop_trace()
        newest = max(self._directory.rglob("perfetto_trace.json.gz"), default=self._directory)
        self._say(
            f"profile   {newest}: open it at https://ui.perfetto.dev, or xprof --logdir "
            f"{self._directory} (pip install xprof)"
        )

"""A run that no longer moves says where it is stuck."""

import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self, TextIO

CHECKS = 20
"""How often within the limit the watchdog looks."""


class Watchdog:
    """Reports on stderr when nothing has moved for too long: what the loop does, and every stack.

    It reports once a stall and ends nothing: a slow disk or another host may come back. Used as a
    context manager; the thread lives inside.
    """

    def __init__(
        self,
        minutes: float,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Allow ``minutes`` without a sign of life; 0: do not watch."""
        self._limit, self._stream, self._clock = 60 * minutes, stream, clock
        self._step, self._phase = 0, "starting"
        self._since = clock()
        self._told = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def step(self, number: int) -> None:
        """Step ``number`` begins."""
        self._step = number
        self.alive()

    def alive(self) -> None:
        """Something moved, such as a batch of an evaluation."""
        self._since = self._clock()
        if self._told:
            self._told = False
            self._write(f"jax-lm: step {self._step} goes on\n")

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """What is done inside, as the report names it (``waiting for data``).

        Phases nest; beginning and ending one is a sign of life.
        """
        before, self._phase = self._phase, name
        self.alive()
        try:
            yield
        finally:
            self._phase = before
            self.alive()

    def __enter__(self) -> Self:
        """Start to watch."""
        self.alive()
        if self._limit > 0:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(self._limit / CHECKS):
            silent = self._clock() - self._since
            if silent >= self._limit and not self._told:
                self._told = True
                self._write(self._report(silent))

    def _report(self, seconds: float) -> str:
        shown = f"{seconds / 60:.1f} minutes" if seconds >= 60 else f"{seconds:.1f} seconds"
        return (
            f"jax-lm: step {self._step}: {self._phase} for {shown} (--stall-minutes "
            f"{self._limit / 60:g}); training is not stopped. What every thread does:\n"
            f"{stacks()}"
        )

    def _write(self, text: str) -> None:
        stream = self._stream or sys.stderr
        stream.write(text)
        stream.flush()


def stacks() -> str:
    """The stack of every Python thread but the one that asks, the innermost call last."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = []
    for identity, frame in sys._current_frames().items():
        if identity != threading.get_ident():
            lines = "".join(traceback.format_stack(frame))
            parts.append(f"  thread {names.get(identity, identity)}:\n{lines}")
    return "".join(parts)

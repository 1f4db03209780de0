"""Signals that ask a run to save itself and stop."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from jax_lm.errors import JaxLMError, SavedAndStopped, StoppedByUser


class StopRequest:
    """Whether a signal has asked to stop, and which."""

    def __init__(self) -> None:
        """Nothing has been asked."""
        self.asked: signal.Signals | None = None
        """What came to this process."""
        self.agreed: signal.Signals | None = None
        """What all processes of the run act upon."""
        self.alone = True
        """Whether this process acts upon what came to it, without asking others."""

    @property
    def signal(self) -> signal.Signals | None:
        """The signal to act upon."""
        return self.asked if self.alone else self.agreed

    def __bool__(self) -> bool:
        """True once asked."""
        return self.signal is not None

    def error(self, message: str) -> JaxLMError:
        """What to raise once the run is saved: exit code 130 for Ctrl-C, 75 otherwise."""
        assert self.signal is not None
        if self.signal == signal.SIGINT:
            return StoppedByUser(f"stopped by Ctrl-C; {message}")
        return SavedAndStopped(f"stopped by {self.signal.name}; {message}")


@contextmanager
def stop_on_signal() -> Iterator[StopRequest]:
    """Turn SIGTERM, SIGUSR1 and the first Ctrl-C into a request; a second Ctrl-C stops at once."""
    request = StopRequest()

    def ask(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT and request.asked == signal.SIGINT:
            raise KeyboardInterrupt
        request.asked = signal.Signals(number)

    signals = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
    before = {number: signal.signal(number, ask) for number in signals}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

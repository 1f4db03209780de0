"""What becomes of a process when another one of its run is lost: it ends, and says which."""

import ctypes
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic, sleep
from typing import Any, NamedTuple, Self

BEAT_SECONDS = 2.0
LOST_SECONDS = 40.0
"""Without a beat for so long a process is lost; a call that holds Python's lock delays beats."""
SUSPECTED_SECONDS = 8.0
"""The same once an exchange with another process has failed."""
GRACE_SECONDS = 6.0
"""For an error that came to all processes to be told by each of them."""
ALIVE, FAILED = "jax_lm/alive/", "jax_lm/failed/"


class Place(NamedTuple):
    """This process among those of its run."""

    number: int
    hosts: tuple[str, ...]
    """Of every process."""
    coordinator: str
    """Address of process 0."""

    def name(self, index: int) -> str:
        """A process as people know it."""
        return f"process {index} ({self.hosts[index]})"

    @property
    def others(self) -> list[int]:
        """All processes but this one."""
        return [index for index in range(len(self.hosts)) if index != self.number]

    def ended(self, what: str) -> str:
        """The sentence that this process ends with."""
        return (
            f"jax-lm: {what}, so {self.name(self.number)} has ended too: see why in its output, "
            f"then start all {len(self.hosts)} processes again with --resume auto\n"
        )


class Watch:
    """Shows the others that this process lives, and watches that they do; a context manager.

    A thread writes a number to the coordinator's store every few seconds and reads those of the
    others; another one judges. JAX has heartbeats of its own, but ends a process without naming
    the host that was lost.
    """

    def __init__(
        self, client: Any, place: Place, *, end: Callable[[str], None] | None = None
    ) -> None:
        """Take the client of `jax.distributed`, and what to do with the last sentence."""
        self._client, self._place = client, place
        self._end = end or _end
        self._limit = LOST_SECONDS
        now = monotonic()
        self._answered = now
        self._beats: dict[int, tuple[str, float]] = {other: ("", now) for other in place.others}
        self._failures: dict[int, tuple[str, float]] = {}
        self._failed_here = False
        self._closed = threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(action,), daemon=True, name=name)
            for action, name in ((self._beat, "sign of life"), (self._judge, "other processes"))
        ]

    def __enter__(self) -> Self:
        """Start to watch."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._closed.set()
        for thread in self._threads:
            thread.join(timeout=BEAT_SECONDS)

    def look_for_lost(self) -> None:
        """Give the threads time to find that another process is lost, and to end this one."""
        self._limit = SUSPECTED_SECONDS
        self._closed.wait(SUSPECTED_SECONDS + 2 * BEAT_SECONDS)

    def all_failed(self, reason: str) -> bool:
        """Tell the others why this process fails, and wait a little for each to fail as well."""
        self._failed_here = True
        deadline = monotonic() + GRACE_SECONDS + 3 * BEAT_SECONDS
        with suppress(Exception):  # the coordinator may be what failed
            self._client.key_value_set(f"{FAILED}{self._place.number}", reason, True)
            while monotonic() < deadline:
                if len(self._client.key_value_dir_get(FAILED)) == len(self._place.hosts):
                    return True
                sleep(BEAT_SECONDS / 4)
        return False

    def last_words(self) -> str | None:
        """What to say where JAX is about to abort; None: it is not for a lost process."""
        place = self._place
        if place.number and not answers(place.coordinator):
            return place.ended(f"{place.name(0)}, the coordinator at {place.coordinator}, was lost")
        return self._lost(SUSPECTED_SECONDS, monotonic())

    def _repeat(self, action: Callable[[], None]) -> None:
        while not self._closed.is_set():
            action()
            self._closed.wait(BEAT_SECONDS)

    def _beat(self) -> None:
        with suppress(Exception):  # of a store out of reach
            self._client.key_value_set(f"{ALIVE}{self._place.number}", f"{monotonic()}", True)
            beats = _numbered(self._client.key_value_dir_get(ALIVE))
            failures = _numbered(self._client.key_value_dir_get(FAILED))
            self._answered = now = monotonic()
            for other, value in beats:
                if other in self._beats and value != self._beats[other][0]:
                    self._beats[other] = value, now
            for other, reason in failures:
                self._failures.setdefault(other, (reason, now))

    def _judge(self) -> None:
        now, place = monotonic(), self._place
        sentence = self._lost(self._limit, now)
        if place.number and now - self._answered > self._limit:
            sentence = place.ended(f"{place.name(0)}, the coordinator, was lost")
        for other, (reason, since) in list(self._failures.items()):
            if now - since > GRACE_SECONDS:
                sentence = place.ended(f"{place.name(other)} failed: {reason}")
        if sentence and not self._closed.is_set() and not self._failed_here:
            self._end(sentence)

    def _lost(self, limit: float, now: float) -> str | None:
        """A sentence about the processes that gave no sign of life for so many seconds."""
        silent = [other for other, (_, since) in self._beats.items() if now - since > limit]
        # Where the store is out of reach nobody is heard of.
        if not silent or now - self._answered > limit / 2:
            return None
        names = ", ".join(self._place.name(other) for other in silent)
        was = "was" if len(silent) == 1 else "were"
        return self._place.ended(f"{names} {was} lost (not heard of for {limit:g} seconds)")


@contextmanager
def told_on_abort(last_words: Callable[[], str | None]) -> Iterator[None]:
    """End with a sentence where JAX would abort, as when process 0 cannot be reached.

    JAX then calls ``abort`` on a thread of its own and takes no callback that would come first, so
    this stands in the place of the signal's handler. Other causes abort as ever.

    Args:
        last_words: gives the sentence; None: the cause is another.
    """
    if threading.current_thread() is not threading.main_thread() or sys.platform == "win32":
        yield
        return

    def on_abort(_: int) -> None:
        sentence = last_words()
        if sentence is not None:
            _end(sentence)
        libc.signal(signal.SIGABRT, None)  # the default: abort comes again

    libc = ctypes.CDLL(None)
    libc.signal.restype = ctypes.c_void_p
    libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(on_abort)
    before = libc.signal(signal.SIGABRT, ctypes.cast(handler, ctypes.c_void_p))
    try:
        yield
    finally:
        libc.signal(signal.SIGABRT, before)


def answers(address: str) -> bool:
    """Whether something listens at HOST:PORT."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=3).close()
    except OSError:
        return False
    return True


def first_line(error: BaseException) -> str:
    """An error in a line."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:500]


def _numbered(entries: Any) -> list[tuple[int, str]]:
    return [(int(key.rsplit("/", 1)[-1]), value) for key, value in entries]


def _end(sentence: str) -> None:
    """End the process at once, whatever its other threads wait for."""
    os.write(2, sentence.encode())
    os._exit(1)

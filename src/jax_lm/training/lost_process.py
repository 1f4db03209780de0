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

    The thread inside writes a number to the coordinator's store every few seconds and reads those
    of the others. JAX has heartbeats of its own, but it ends a process without naming another.
    """

    def __init__(
        self, client: Any, place: Place, *, end: Callable[[str], None] | None = None
    ) -> None:
        """Take the client of `jax.distributed`, and what to do with the last sentence."""
        self._client, self._place = client, place
        self._end = end or _end
        self._limit = LOST_SECONDS
        now = monotonic()
        self._beats: dict[int, tuple[str, float]] = {other: ("", now) for other in place.others}
        self._failures: dict[int, tuple[str, float]] = {}
        self._failed_here = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="other processes", daemon=True)

    def __enter__(self) -> Self:
        """Start to watch."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._closed.set()
        self._thread.join(timeout=2 * BEAT_SECONDS)

    def look_for_lost(self) -> None:
        """Give the thread time to find that another process is lost, and to end this one."""
        self._limit = SUSPECTED_SECONDS
        sleep(SUSPECTED_SECONDS + 2 * BEAT_SECONDS)

    def all_failed(self, reason: str) -> bool:
        """Tell the others why this process fails, and wait a little for each to fail as well."""
        self._failed_here = True
        deadline = monotonic() + GRACE_SECONDS + 3 * BEAT_SECONDS
        with suppress(Exception):  # the coordinator may be what failed
            self._client.key_value_set(
                f"{FAILED}{self._place.number}", reason, allow_overwrite=True
            )
            while monotonic() < deadline:
                if len(self._client.key_value_dir_get(FAILED)) == len(self._place.hosts):
                    return True
                sleep(BEAT_SECONDS / 4)
        return False

    def _run(self) -> None:
        number = 0
        answered = monotonic()
        while not self._closed.is_set():
            number += 1
            try:
                self._beat(number)
                answered = monotonic()
            except Exception:
                if monotonic() - answered > self._limit and not self._closed.is_set():
                    self._end(self._place.ended(f"{self._place.name(0)} was lost"))
            self._closed.wait(BEAT_SECONDS)

    def _beat(self, number: int) -> None:
        self._client.key_value_set(
            f"{ALIVE}{self._place.number}", str(number), allow_overwrite=True
        )
        now = monotonic()
        for other, value in _numbered(self._client.key_value_dir_get(ALIVE)):
            if other in self._beats and value != self._beats[other][0]:
                self._beats[other] = value, now
        for other, reason in _numbered(self._client.key_value_dir_get(FAILED)):
            self._failures.setdefault(other, (reason, now))
        self._judge(now)

    def _judge(self, now: float) -> None:
        if self._closed.is_set() or self._failed_here:
            return
        for other, (reason, since) in self._failures.items():
            if now - since > GRACE_SECONDS:
                self._end(self._place.ended(f"{self._place.name(other)} failed: {reason}"))
        lost = [other for other, (_, since) in self._beats.items() if now - since > self._limit]
        if lost:
            names = ", ".join(self._place.name(other) for other in lost)
            was = "was" if len(lost) == 1 else "were"
            self._end(
                self._place.ended(f"{names} {was} lost (nothing heard of for {self._limit:g} s)")
            )


@contextmanager
def told_on_abort(place: Place | None, start_seconds: int = 0) -> Iterator[None]:
    """End with a sentence where JAX would abort: it does when process 0 cannot be reached.

    JAX then calls ``abort`` on a thread of its own and takes no callback that would come first, so
    this stands in the place of the signal's handler. Other causes abort as ever.

    Args:
        place: of this process; None: it is joining the others.
        start_seconds: how long that may take.
    """
    if threading.current_thread() is not threading.main_thread() or sys.platform == "win32":
        yield
        return

    def on_abort(_: int) -> None:
        sentence = _last_words(place, start_seconds)
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


def _last_words(place: Place | None, start_seconds: int) -> str | None:
    if place is None:
        from jax._src import distributed

        address = distributed.global_state.coordinator_address
        return (
            f"jax-lm: not all processes of the run met at {address} within {start_seconds} "
            "seconds: start all of them with the same address and number of processes, and see that each "
            "host reaches that port\n"
        )
    if place.number == 0 or answers(place.coordinator):
        return None
    return place.ended(f"{place.name(0)}, the coordinator at {place.coordinator}, was lost")


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

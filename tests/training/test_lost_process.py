"""What a process says of the others, with a store in the place of JAX's."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from jax_lm.training.hosts import lost_process
from jax_lm.training.hosts.lost_process import Place, Watch, answers


class Store:
    """The coordinator's store of keys, as ``jax.distributed``'s client shows it."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.reachable = True

    def key_value_set(self, key: str, value: str, allow_overwrite: bool = False) -> None:
        if not self.reachable:
            raise RuntimeError("UNAVAILABLE")
        assert allow_overwrite or key not in self.values
        self.values[key] = value

    def key_value_dir_get(self, prefix: str) -> list[tuple[str, str]]:
        if not self.reachable:
            raise RuntimeError("UNAVAILABLE")
        return [(key, value) for key, value in self.values.items() if key.startswith(prefix)]


class Other:
    """Another process that gives signs of life until it is told not to."""

    def __init__(self, store: Store, number: int) -> None:
        self._store, self._number = store, number
        self._dead = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    def die(self) -> None:
        self._dead.set()
        self._thread.join()

    def _live(self) -> None:
        for beat in itertools.count():
            if self._dead.wait(0.02):
                return
            if self._store.reachable:
                self._store.key_value_set(f"jax_lm/alive/{self._number}", str(beat), True)


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds of the real thing in hundredths."""
    for name, seconds in (("BEAT", 0.02), ("LOST", 0.6), ("SUSPECTED", 0.3), ("GRACE", 0.1)):
        monkeypatch.setattr(lost_process, f"{name}_SECONDS", seconds)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def store() -> Store:
    return Store()


PLACES = Place(1, ("alpha", "beta", "gamma"), "127.0.0.1:1")


@pytest.fixture
def others(store: Store) -> Iterator[list[Other]]:
    started = [Other(store, 0), Other(store, 2)]
    yield started
    for other in started:
        other.die()


def wait_for(said: list[str]) -> str:
    deadline = time.monotonic() + 10
    while not said and time.monotonic() < deadline:
        time.sleep(0.01)
    return said[0]


def test_one_that_is_lost_is_named(store: Store, others: list[Other], said: list[str]) -> None:
    with Watch(store, PLACES, end=said.append):
        time.sleep(1.0)
        assert said == []
        others[1].die()
        sentence = wait_for(said)
    assert "process 2 (gamma) was lost" in sentence
    assert "process 1 (beta) has ended too" in sentence
    assert "start all 3 processes again with --resume auto" in sentence


def test_one_that_fails_says_why(store: Store, others: list[Other], said: list[str]) -> None:
    with Watch(store, PLACES, end=said.append):
        store.key_value_set("jax_lm/failed/2", "features/train: damaged")
        assert "process 2 (gamma) failed: features/train: damaged, so" in wait_for(said)


def test_a_store_out_of_reach_is_process_0(
    store: Store, others: list[Other], said: list[str]
) -> None:
    with Watch(store, PLACES, end=said.append) as watch:
        store.reachable = False
        assert "process 0 (alpha), the coordinator, was lost" in wait_for(said)
        assert "process 0 (alpha), the coordinator at 127.0.0.1:1, was" in str(watch.last_words())


def test_a_failure_of_all_is_told_by_each(
    store: Store, others: list[Other], said: list[str]
) -> None:
    with Watch(store, PLACES, end=said.append) as watch:
        assert not watch.all_failed("no such file")
        store.key_value_set("jax_lm/failed/0", "no such file")
        store.key_value_set("jax_lm/failed/2", "no such file")
        assert watch.all_failed("no such file")
    assert said == []
    assert store.values["jax_lm/failed/1"] == "no such file"


def test_an_error_makes_it_look_closer(store: Store, others: list[Other], said: list[str]) -> None:
    with Watch(store, PLACES, end=said.append) as watch:
        others[0].die()
        watch.look_for_lost()
        assert "process 0 (alpha) was lost (not heard of for 0.3 seconds)" in wait_for(said)


def test_nothing_answers_at_a_closed_port() -> None:
    assert not answers("127.0.0.1:1")


ABORTING = """
import ctypes, os, threading
from jax_lm.training.hosts.lost_process import told_on_abort
with told_on_abort(lambda: {words!r}):
    threading.Thread(target=ctypes.CDLL(None).abort).start()
    threading.Event().wait()
"""


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [("jax-lm: lost\n", 1, "jax-lm: lost\n"), (None, -signal.SIGABRT, "")],
)
def test_an_abort_has_last_words(words: str | None, code: int, told: str) -> None:
    program = [sys.executable, "-c", ABORTING.format(words=words)]
    ended = subprocess.run(
        program, capture_output=True, text=True, timeout=60, check=False, env=os.environ
    )
    assert (ended.returncode, ended.stderr) == (code, told)

"""What processes tell each other, with a store in the place of JAX's."""

import atexit
import itertools
import threading
import time
from typing import Any

import jax
import pytest

from jax_lm.errors import JaxLMError, UsageError
from jax_lm.sharding import processes as decisions
from jax_lm.sharding.processes import all_or_none, first_decides, in_turn
from jax_lm.training.hosts import distributed


class Store(dict[str, str]):
    """Keys as the coordinator keeps them."""

    def key_value_set(self, key: str, value: str) -> None:
        assert key not in self
        self[key] = value

    def blocking_key_value_get(self, key: str, _milliseconds: int) -> str:
        deadline = time.monotonic() + 20
        while key not in self and time.monotonic() < deadline:
            time.sleep(0.001)
        return self[key]


class Processes:
    """Two processes, played one after the other."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        patch.setattr(jax, "process_count", lambda: 2)
        patch.setattr(decisions.distributed.global_state, "client", Store())

    def be(self, index: int) -> None:
        self._patch.setattr(jax, "process_index", lambda: index)
        self._patch.setattr(decisions, "_decisions", itertools.count())


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    return Processes(monkeypatch)


def fail() -> None:
    raise OSError("the disk is full")


def test_all_get_what_the_first_decides(processes: Processes) -> None:
    processes.be(0)
    assert first_decides(lambda: {"step": 4}) == {"step": 4}
    with pytest.raises(OSError, match="the disk is full"):
        first_decides(fail)
    assert in_turn(lambda: "made") == "made"
    processes.be(1)
    assert first_decides(lambda: pytest.fail("called")) == {"step": 4}
    with pytest.raises(JaxLMError, match="the disk is full"):
        first_decides(lambda: pytest.fail("called"))
    assert in_turn(lambda: "found") == "found"


@pytest.mark.parametrize("failing", [None, 0, 1])
def test_what_fails_in_one_counts_in_none(
    failing: int | None, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jax, "process_index", lambda: int(threading.current_thread().name))
    outcomes: dict[int, Exception | None] = {}

    def act(index: int) -> None:
        try:
            with all_or_none("first"):
                if index == failing:
                    fail()
            outcomes[index] = None
        except (OSError, JaxLMError) as error:
            outcomes[index] = error

    threads = [threading.Thread(target=act, args=(index,), name=str(index)) for index in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    if failing is None:
        assert outcomes == {0: None, 1: None}
    else:
        assert isinstance(outcomes[failing], OSError)
        assert str(outcomes[1 - failing]) == f"process {failing}: the disk is full"


def test_one_process_alone_fails_as_it_does() -> None:
    with pytest.raises(OSError, match="the disk is full"), all_or_none("alone"):
        fail()


class Watch:
    """Notes what it is asked for."""

    def __init__(self, *, all_failed: bool) -> None:
        self.asked: list[str] = []
        self._all_failed = all_failed

    def look_for_lost(self) -> None:
        self.asked.append("lost")

    def all_failed(self, reason: str) -> bool:
        self.asked.append(reason)
        return self._all_failed


@pytest.mark.parametrize(
    ("error", "all_failed", "asked", "leaves"),
    [
        (UsageError("no such flag\nor so"), False, ["no such flag"], [2]),
        (ValueError("gloo: closed"), False, ["lost", "gloo: closed"], [1]),
        (KeyboardInterrupt(), False, ["KeyboardInterrupt"], [1]),
        (JaxLMError("no such file"), True, ["no such file"], ["shutdown"]),
    ],
)
def test_a_failed_process_waits_for_none_that_did_not(
    error: BaseException,
    all_failed: bool,
    asked: list[str],
    leaves: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left: list[Any] = []
    monkeypatch.setattr(jax.distributed, "shutdown", lambda: left.append("shutdown"))
    monkeypatch.setattr(atexit, "register", lambda leave, code: left.append(code))
    watch: Any = Watch(all_failed=all_failed)
    distributed._leave_failed(watch, error)
    assert (watch.asked, left) == (asked, leaves)

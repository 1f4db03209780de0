"""What processes tell each other, with a store in the place of JAX's."""

import atexit
import itertools
from pathlib import Path
from typing import Any

import jax
import pytest

from jax_lm.errors import JaxLMError, UsageError
from jax_lm.sharding import processes as decisions
from jax_lm.sharding.processes import check_written, first_decides, in_turn, mark_written
from jax_lm.training.hosts import distributed


class Store(dict[str, str]):
    """Keys as the coordinator keeps them."""

    def key_value_set(self, key: str, value: str) -> None:
        assert key not in self
        self[key] = value

    def blocking_key_value_get(self, key: str, _milliseconds: int) -> str:
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


def test_a_checkpoint_without_the_shards_of_all_is_refused(
    processes: Processes, tmp_path: Path
) -> None:
    processes.be(0)
    mark_written(tmp_path)
    with pytest.raises(JaxLMError, match="process 1 could not write its shards"):
        check_written(tmp_path)
    processes.be(1)
    mark_written(tmp_path)
    check_written(tmp_path)
    assert list(tmp_path.iterdir()) == []


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

import re
import sys
import threading
import time
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest

from jax_lm.loading.loader import Loader
from jax_lm.training.config import TrainConfig
from jax_lm.training.run import train
from jax_lm.training.stall import Watchdog


def waits_for(condition: object, seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.01)
    return False


def a_blocked_loader(release: threading.Event) -> None:
    release.wait(30)


def test_a_stall_is_told_once_with_every_stack_and_the_run_goes_on() -> None:
    stream, release = StringIO(), threading.Event()
    with Watchdog(0.05 / 60, stream=stream) as watchdog:
        watchdog.step(7)
        loader = threading.Thread(target=a_blocked_loader, args=(release,), name="loader")
        loader.start()
        with watchdog.phase("waiting for data"):
            assert waits_for(lambda: "What every thread does" in stream.getvalue())
            time.sleep(0.2)  # four limits more
        release.set()
        loader.join()
        assert "step 7 goes on" in stream.getvalue()
    said = stream.getvalue()
    assert said.startswith("jax-lm: step 7: waiting for data for 0.")
    assert said.count("(--stall-minutes 0.000833333)") == 1
    assert "thread loader" in said and "a_blocked_loader" in said
    assert "thread MainThread" in said and "waits_for" in said


def test_two_stalls_are_told_twice_each_by_its_name() -> None:
    stream = StringIO()
    with Watchdog(0.05 / 60, stream=stream) as watchdog:
        for name in ("compiling the training step", "evaluating"):
            with watchdog.phase(name):
                assert waits_for(lambda name=name: f": {name} for" in stream.getvalue())
    assert stream.getvalue().count("(--stall-minutes 0.000833333)") == 2


def test_what_moves_is_not_reported() -> None:
    stream = StringIO()
    now = [0.0]
    with Watchdog(1 / 60, stream=stream, clock=lambda: now[0]) as watchdog:
        for _ in range(10):
            now[0] += 0.9
            watchdog.alive()
        time.sleep(0.15)
    assert stream.getvalue() == ""


def test_no_limit_no_thread() -> None:
    before = threading.active_count()
    with Watchdog(0.0) as watchdog, watchdog.phase("computing"):
        assert threading.active_count() == before


def test_a_blocked_loader_of_a_run_is_told_in_time(
    config: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run waits for its seventh batch until the report is there, and then ends as any other."""
    limit, stream, batch_of = 0.6, StringIO(), Loader._batch

    def blocked_disk(self: Loader, order: Any, position: int) -> Any:
        if position == 6 * self._batch_size:
            assert waits_for(lambda: "step 7: waiting for data" in stream.getvalue())
        return batch_of(self, order, position)

    monkeypatch.setattr(Loader, "_batch", blocked_disk)
    monkeypatch.setattr(sys, "stderr", stream)
    config = replace(config, data=replace(config.data, validation=()))
    run = train(replace(config, stall_minutes=limit / 60), lambda line: None)
    told = re.search(r"step 7: waiting for data for ([\d.]+) seconds", stream.getvalue())
    assert told is not None
    assert limit <= float(told[1]) + 0.05 < 5 * limit
    report = stream.getvalue()[told.start() :]
    assert "in blocked_disk" in report and "thread MainThread" in report
    assert "step 7 goes on" in report
    assert (run / "final" / "model.safetensors").is_file()

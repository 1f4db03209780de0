from collections.abc import Mapping
from pathlib import Path

import pytest

from jax_lm.trackers.base import Histogram
from jax_lm.trackers.combined import CombinedTracker, open_trackers
from jax_lm.trackers.jsonl import read_metrics


class Recorder:
    """Remembers what it was given; fails from the step it is told to."""

    def __init__(self, fails_from: int = 1000) -> None:
        self.steps: list[int] = []
        self.fails_from = fails_from

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        if step >= self.fails_from:
            raise OSError("disk is full")
        self.steps.append(step)

    def sample(self, step: int, prompt: str, text: str) -> None:
        self.steps.append(-step)

    def histogram(self, step: int, values: Mapping[str, Histogram]) -> None:
        self.steps.append(100 * step)

    def close(self) -> None:
        self.steps.append(0)


def test_a_failing_tracker_is_reported_once_and_the_others_go_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken, whole = Recorder(fails_from=2), Recorder()
    tracker = CombinedTracker([broken, whole])
    for step in (1, 2, 3):
        tracker.log(step, {"train/loss": 1.0})
    tracker.sample(3, "a", "b")
    tracker.histogram(3, {})
    tracker.close()
    assert whole.steps == [1, 2, 3, -3, 300, 0]
    assert broken.steps == [1]
    assert capsys.readouterr().err == (
        "jax-lm: Recorder failed and is left out from here on: disk is full\n"
    )


def test_a_tracker_that_cannot_be_opened_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tensorboard").write_text("a file where a folder should be")
    tracker = open_trackers(tmp_path, total_steps=2, console=False)
    tracker.log(1, {"train/loss": 2.0})
    tracker.close()
    assert "TensorboardTracker failed and is left out" in capsys.readouterr().err
    assert len(read_metrics(tmp_path / "metrics.jsonl")) == 1


def test_a_run_gets_its_files_and_only_those_asked_for(tmp_path: Path) -> None:
    tracker = open_trackers(tmp_path, total_steps=2, tensorboard=False, console=False)
    tracker.log(1, {"train/loss": 2.0})
    tracker.sample(1, "a", "ab")
    tracker.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics.jsonl", "samples"]

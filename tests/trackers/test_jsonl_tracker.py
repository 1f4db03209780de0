import json
import math
import time
from pathlib import Path

import pytest

from jax_lm.errors import JaxLMError
from jax_lm.trackers.jsonl import JsonlTracker, read_metrics


def write_steps(path: Path, steps: range, resume_step: int | None = None) -> None:
    tracker = JsonlTracker(path, resume_step=resume_step)
    for step in steps:
        tracker.log(step, {"train/loss": 1.0 / step})
    tracker.close()


def test_rows_are_on_disk_as_soon_as_they_are_logged(tmp_path: Path) -> None:
    tracker = JsonlTracker(tmp_path / "runs" / "metrics.jsonl")
    tracker.log(10, {"train/loss": 3.25})
    (row,) = read_metrics(tmp_path / "runs" / "metrics.jsonl")
    assert row == {"step": 10, "time": row["time"], "train/loss": 3.25}
    assert abs(row["time"] - time.time()) < 60
    tracker.close()


def test_not_a_number_is_null_and_named(tmp_path: Path) -> None:
    tracker = JsonlTracker(tmp_path / "m.jsonl")
    tracker.log(1, {"a": math.nan, "b": -math.inf, "c": 1.0})
    tracker.close()
    row = json.loads((tmp_path / "m.jsonl").read_text(), parse_constant=pytest.fail)
    assert (row["a"], row["b"], row["c"], row["_nonfinite"]) == (None, None, 1.0, ["a", "b"])


def test_resume_forgets_what_the_checkpoint_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    write_steps(path, range(1, 8))
    write_steps(path, range(6, 9), resume_step=5)
    assert [row["step"] for row in read_metrics(path)] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_resume_from_the_start_keeps_no_row(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    write_steps(path, range(1, 4))
    write_steps(path, range(1, 2), resume_step=0)
    assert [row["step"] for row in read_metrics(path)] == [1]


def test_a_line_cut_short_by_a_kill_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    write_steps(path, range(1, 4))
    path.write_bytes(path.read_bytes() + '{"step": 4, "train/lo\u00e9'.encode()[:-1])
    assert len(read_metrics(path)) == 3
    write_steps(path, range(4, 5), resume_step=3)
    assert [row["step"] for row in read_metrics(path)] == [1, 2, 3, 4]


def test_a_new_run_keeps_the_old_file_beside(tmp_path: Path) -> None:
    write_steps(tmp_path / "m.jsonl", range(1, 4))
    write_steps(tmp_path / "m.jsonl", range(1, 2))
    assert len(read_metrics(tmp_path / "m.previous.jsonl")) == 3
    assert len(read_metrics(tmp_path / "m.jsonl")) == 1


@pytest.mark.parametrize("line", ["not json", "[1]", '{"loss": 1}', '{"step": "1"}'])
def test_a_foreign_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text(f'{{"step": 1}}\n{line}\n{{"step": 3}}\n')
    with pytest.raises(JaxLMError, match=r"m\.jsonl:2: expected a JSON object with a step"):
        read_metrics(path)

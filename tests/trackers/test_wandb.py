import json
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jax_lm.errors import JaxLMError
from jax_lm.trackers.base import Histogram
from jax_lm.trackers.combined import open_trackers
from jax_lm.trackers.jsonl import read_metrics
from jax_lm.trackers.wandb import WandbSettings, WandbTracker
from tests.wandb_file import configuration, history, run_ids

OFFLINE = WandbSettings(project="tests", mode="offline")
CONFIG = {"model": {"family": "gpt2"}, "data": {"train": ["text"]}, "seed": 3}


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run of six steps, killed after the fifth and continued after the third."""
    path = tmp_path_factory.mktemp("wandb") / "run"
    histogram = Histogram(np.array([1, 2, 3]), np.array([-1.0, 0.0, 0.5, 1.0]))
    for resume_step, steps in ((None, range(1, 6)), (3, range(4, 7))):
        tracker = open_trackers(
            path,
            total_steps=6,
            resume_step=resume_step,
            console=False,
            tensorboard=False,
            wandb=OFFLINE,
            config=CONFIG,
        )
        for step in steps:
            tracker.log(step, {"train/loss": 3.0 / step, "train/learning_rate": 1e-3 * step})
            if step % 2 == 0:
                tracker.log(step, {"val/loss": 1 / 3 + step, "val/blåbær/loss": 2.5})
                tracker.sample(step, "def ", "main(): \ud800")
                tracker.sample(step, "", "안녕")
                tracker.histogram(step, {"gradients/blocks.norm": histogram})
        tracker.close()
        time.sleep(1.0)  # their folders are named by the second
    yield path


def test_the_rows_are_those_of_metrics_jsonl(run_dir: Path) -> None:
    theirs = {row["_step"]: row for row in history(run_dir)}
    assert [row["_step"] for row in history(run_dir)] == [1, 2, 3, 4, 5, 6]
    ours = read_metrics(run_dir / "metrics.jsonl")
    compared = 0
    for row in ours:
        for name, value in row.items():
            if "/" in name:
                assert theirs[row["step"]][name] == value
                compared += 1
    assert compared == 6 * 2 + 3 * 2


def test_one_run_with_its_configuration(run_dir: Path) -> None:
    (own,) = run_ids(run_dir)
    assert json.loads((run_dir / "wandb-run.json").read_text()) == {"id": own, "step": 6}
    found = configuration(run_dir)
    assert {key: found[key] for key in CONFIG} == CONFIG


def test_samples_become_a_table_and_gradients_a_histogram(run_dir: Path) -> None:
    row = next(row for row in history(run_dir) if row["_step"] == 6)
    assert row["samples/_type"] == "table-file"
    (table,) = run_dir.glob(f"wandb/offline-run-*/files/{row['samples/path']}")
    assert json.loads(table.read_text())["data"] == [[6, "def ", "def main(): ?"], [6, "", "안녕"]]
    assert row["gradients/blocks.norm/values"] == [1, 2, 3]
    assert row["gradients/blocks.norm/bins"] == [-1.0, 0.0, 0.5, 1.0]
    assert (row["samples/nrows"], row["samples/ncols"]) == (2, 3)


def test_nothing_of_the_machine_is_uploaded(run_dir: Path) -> None:
    names = {path.name for path in run_dir.rglob("wandb/*/files/**/*") if path.is_file()}
    assert not names & {"requirements.txt", "output.log", "wandb-metadata.json", "diff.patch"}
    for path in run_dir.rglob("run-*.wandb"):
        assert sys.executable.encode() not in path.read_bytes()


def test_numbers_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tracker = WandbTracker(tmp_path, OFFLINE, {})
    tracker.log(1, {"train/loss": math.nan, "train/grad_norm": math.inf})
    tracker.close()
    tracker.log(2, {"train/loss": 1.0})  # nothing happens once it is closed
    tracker.close()
    (row,) = history(tmp_path)
    assert math.isnan(row["train/loss"])
    assert row["train/grad_norm"] == math.inf
    assert "wandb sync" in capsys.readouterr().err


def test_absence_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(JaxLMError, match=r"needs wandb: pip install 'jax-lm\[wandb\]'"):
        open_trackers(tmp_path, total_steps=1, wandb=OFFLINE, console=False)


def test_other_numbers_are_of_another_run(tmp_path: Path) -> None:
    first = WandbTracker(tmp_path, OFFLINE, {})
    first.log(5, {"train/loss": 2.0})
    first.close()
    before = json.loads((tmp_path / "wandb-run.json").read_text())
    changed = WandbTracker(tmp_path, replace(OFFLINE, another_run=True), {}, resume_step=3)
    changed.log(4, {"train/loss": 1.0})
    changed.close()
    after = json.loads((tmp_path / "wandb-run.json").read_text())
    assert before["id"] != after["id"]
    assert (before["step"], after["step"]) == (5, 4)

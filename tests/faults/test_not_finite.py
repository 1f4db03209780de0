"""Batches that give NaN: one is skipped and counted, several in a row end the run."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jax_lm.checkpoints import list_steps, step_directory
from jax_lm.cli.main import main
from jax_lm.dataclass_json import to_json
from jax_lm.loading.loader import Loader
from jax_lm.trackers.jsonl import read_metrics
from jax_lm.training.config import CheckpointConfig, DataConfig, TrackingConfig, TrainConfig
from jax_lm.types import Batch
from tests.conftest import TinyFeatures
from tests.faults.tiny_run import tiny_config, wait_until
from tests.training.same_run import newest_state, stored

Poison = Callable[..., dict[int, list[int]]]


@pytest.fixture
def config(tiny_features: TinyFeatures, tmp_path: Path) -> TrainConfig:
    return tiny_config(
        tiny_features,
        tmp_path / "run",
        steps=8,
        data=DataConfig(train=(tiny_features.train,)),
        checkpoint=CheckpointConfig(every=4, keep=9),
        tracking=TrackingConfig(every=1, tensorboard=False),
        max_bad_steps=3,
    )


@pytest.fixture
def poison(monkeypatch: pytest.MonkeyPatch) -> Poison:
    """Make the loss of some steps NaN; gives the rows that each step read.

    A step in ``after`` waits for a path to be there.
    """

    def arrange(*steps: int, after: dict[int, Path] | None = None) -> dict[int, list[int]]:
        batch_of, read = Loader._batch, {}

        def batch(self: Loader, order: Any, position: int) -> Batch:
            step = position // self._batch_size + 1
            found = batch_of(self, order, position)
            read[step] = [int(row) for row in order.rows(position, position + self._batch_size)]
            if after and step in after:
                assert wait_until(after[step].exists)
            nan = np.float32(np.nan if step in steps else 1.0)
            return found._replace(loss_mask=found.loss_mask * nan)

        monkeypatch.setattr(Loader, "_batch", batch)
        return read

    return arrange


def run(config: TrainConfig, tmp_path: Path) -> int:
    given = tmp_path / "given.json"
    given.write_text(json.dumps(to_json(config)))
    return main(["train", "--config", str(given)])


@pytest.mark.slow
def test_one_is_skipped_and_counted(config: TrainConfig, poison: Poison, tmp_path: Path) -> None:
    poison(6)
    config = replace(config, checkpoint=CheckpointConfig(every=1, keep=4))
    assert run(config, tmp_path) == 0
    metrics = read_metrics(tmp_path / "run" / "metrics.jsonl")
    rows = {row["step"]: row for row in metrics if "train/loss" in row}
    assert [step for step, row in rows.items() if row["train/loss"] is None] == [6]
    assert [rows[step]["train/skipped_steps"] for step in range(1, 9)] == [0] * 5 + [1] * 3
    before, bad, after = (model_at(config, step) for step in (5, 6, 7))
    assert all(np.array_equal(before[name], bad[name]) for name in before)
    assert not all(np.array_equal(bad[name], after[name]) for name in bad)
    assert all(np.isfinite(array).all() for array in newest_state(config.run_dir).values())


def model_at(config: TrainConfig, step: int) -> dict[str, np.ndarray]:
    return stored(step_directory(Path(config.run_dir) / "checkpoints", step) / "model")


def test_several_in_a_row_end_the_run(
    config: TrainConfig, poison: Poison, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two, a good one, and then three: these are too many."""
    checkpoint = step_directory(tmp_path / "run" / "checkpoints", 4)
    read = poison(2, 3, 5, 6, 7, after={7: checkpoint})
    assert run(config, tmp_path) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("jax-lm: step 7: loss or gradient was not finite for 3 steps in a row")
    assert f"(rows of the last one: {', '.join(map(str, read[7]))})" in said
    assert f"go on from {checkpoint} with --resume auto, --allow-change optimizer" in said
    assert "Traceback" not in said
    assert not (tmp_path / "run" / "final").exists()
    assert list_steps(checkpoint.parent) == [4]

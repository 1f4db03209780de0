"""Whether two runs are the same to the bit."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from jax_lm.checkpoints import list_steps, read_progress, step_directory
from jax_lm.pretrained import open_model
from jax_lm.trackers.jsonl import read_metrics

OF_THE_MACHINE = {
    "time",
    "train/data_seconds",
    "train/memory_gb",
    "train/mfu",
    "train/step_seconds",
    "train/tokens_per_second",
}


def weights(run_dir: str) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(open_model(run_dir).model)]


def numbers(run_dir: str) -> list[dict[str, Any]]:
    """All logged metrics but those of the clock and of memory."""
    rows = read_metrics(Path(run_dir) / "metrics.jsonl")
    return [{key: row[key] for key in row if key not in OF_THE_MACHINE} for row in rows]


def newest_checkpoint(run_dir: str) -> Path:
    checkpoints = Path(run_dir) / "checkpoints"
    return step_directory(checkpoints, list_steps(checkpoints)[-1])


def optimizer_state(run_dir: str) -> dict[str, np.ndarray]:
    """Every array of the newest checkpoint's optimizer state."""
    return stored(newest_checkpoint(run_dir) / "optimizer")


def stored(part: Path) -> dict[str, np.ndarray]:
    """Every array of a part of a checkpoint by its path."""
    with ocp.StandardCheckpointer() as checkpointer:
        restored: dict[str, np.ndarray] = checkpointer.restore(part.absolute())
    return restored


def newest_state(run_dir: str) -> dict[str, np.ndarray]:
    """Every array of the newest checkpoint: parameters, their average, optimizer state."""
    parts = [path for path in newest_checkpoint(run_dir).iterdir() if path.is_dir()]
    assert {part.name for part in parts} >= {"model", "optimizer"}
    return {f"{part.name}.{name}": array for part in parts for name, array in stored(part).items()}


def assert_same_run(one: str, other: str) -> None:
    expected_state, found_state = newest_state(one), newest_state(other)
    assert expected_state.keys() == found_state.keys()
    for name, values in expected_state.items():
        np.testing.assert_array_equal(found_state[name], values, err_msg=name)
    for expected, found in zip(weights(one), weights(other), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert read_progress(newest_checkpoint(other)) == read_progress(newest_checkpoint(one))
    assert numbers(other) == numbers(one)

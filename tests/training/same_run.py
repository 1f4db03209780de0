"""Whether two runs are the same to the bit."""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from jax_lm.pretrained import open_model
from jax_lm.trackers.jsonl import read_metrics


def weights(run_dir: str) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(open_model(run_dir).model)]


def numbers(run_dir: str) -> list[dict[str, Any]]:
    """All logged metrics but those of the clock."""
    dropped = ("time", "train/tokens_per_second")
    rows = read_metrics(Path(run_dir) / "metrics.jsonl")
    return [{key: row[key] for key in row if key not in dropped} for row in rows]


def assert_same_run(one: str, other: str) -> None:
    for expected, found in zip(weights(one), weights(other), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert numbers(other) == numbers(one)

"""A run directory like those training writes, made in milliseconds."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jax_lm.trackers import environment
from jax_lm.trackers.samples import SamplesTracker


def write_run(directory: Path, *, steps: int = 100, loss: float = 2.0, tokens: bool = True) -> Path:
    directory.mkdir(parents=True)
    rows: list[dict[str, Any]] = []
    for step in range(1, steps + 1):
        row = {
            "step": step,
            "time": 1.8e9 + step,
            "train/loss": loss + 6 * math.exp(-step / 20),
            "train/learning_rate": 1e-3 * step / steps,
            "train/grad_norm": 1.0,
            "train/tokens_per_second": 5000.0 + step,
        }
        rows.append(row | ({"train/tokens": step * 2048} if tokens else {}))
        if step % 20 == 0:
            held_out = {"val/loss": loss + 0.5, "val/perplexity": 12.2, "val/bits_per_byte": 1.25}
            rows.append({"step": step, "time": 1.8e9 + step, **held_out, "val/github/loss": 1.0})
    with (directory / "metrics.jsonl").open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    config = {"model": {"family": "gpt2", "dropout": 0.0}, "seed": steps, "tags": [], "name": None}
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "environment.json").write_text(json.dumps(environment.describe()))
    samples = SamplesTracker(directory / "samples")
    for step in (50, 100):
        samples.sample(step, "def ", f"def <script>alert({step})</script> & more")
    return directory


MakeRun = Callable[..., Path]


@pytest.fixture
def make_run() -> MakeRun:
    return write_run


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return write_run(tmp_path / "first-run")

"""What every tracker promises; a new one is a new line in ``OPENERS``."""

import math
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from jax_lm.trackers.base import Histogram, Tracker
from jax_lm.trackers.combined import CombinedTracker, open_trackers
from jax_lm.trackers.console import ConsoleTracker
from jax_lm.trackers.jsonl import JsonlTracker
from jax_lm.trackers.samples import SamplesTracker
from jax_lm.trackers.tensorboard import TensorboardTracker
from jax_lm.trackers.wandb import WandbSettings, WandbTracker

Opener = Callable[[Path, int | None], Tracker]

OPENERS: dict[str, Opener] = {
    "jsonl": lambda path, resume: JsonlTracker(path / "metrics.jsonl", resume_step=resume),
    "samples": lambda path, resume: SamplesTracker(path / "samples", resume_step=resume),
    "tensorboard": lambda path, resume: TensorboardTracker(path / "tb", resume_step=resume),
    "console": lambda path, resume: ConsoleTracker(
        100, initial_step=resume or 0, stream=StringIO()
    ),
    "wandb": lambda path, resume: WandbTracker(
        path, WandbSettings(project="tests", mode="offline"), {"seed": 0}, resume_step=resume
    ),
    "combined": lambda path, resume: CombinedTracker([OPENERS["jsonl"](path, resume)]),
    "all": lambda path, resume: open_trackers(path, total_steps=100, resume_step=resume),
}


@pytest.fixture(params=OPENERS)
def opener(request: pytest.FixtureRequest) -> Opener:
    return OPENERS[request.param]


def files_of(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*.*")}


def test_log_sample_and_close_twice(opener: Opener, tmp_path: Path) -> None:
    tracker = opener(tmp_path, None)
    for step in (1, 2):
        tracker.log(step, {"train/loss": 3.0 / step, "train/learning_rate": 1e-3})
    tracker.log(2, {"val/loss": 2.5, "val/pile-cc/loss": 2.0})
    tracker.sample(2, "def ", "def main():")
    counts, edges = np.array([3, 1]), np.array([-1.0, 0.0, 1.0])
    tracker.histogram(2, {"gradients/blocks.norm": Histogram(counts, edges)})
    tracker.close()
    closed = files_of(tmp_path)
    tracker.close()
    assert files_of(tmp_path) == closed


def test_any_text_and_any_number_is_taken(opener: Opener, tmp_path: Path) -> None:
    tracker = opener(tmp_path, None)
    tracker.log(1, {"val/blåbær/loss": math.nan, "train/loss": math.inf, "train/grad_norm": 0})
    tracker.sample(1, "", "안녕 \ud800\x00 <b>")
    tracker.sample(1, "héllo\n", "")
    tracker.close()


def test_nothing_half_written_is_left(opener: Opener, tmp_path: Path) -> None:
    for resume in (None, 1):
        tracker = opener(tmp_path, resume)
        tracker.log(2, {"train/loss": 1.0})
        tracker.sample(2, "a", "ab")
        tracker.close()
    assert not [name for name in files_of(tmp_path) if Path(name).name.startswith(("_", ".tmp"))]


def test_resumes_where_there_is_nothing_yet(opener: Opener, tmp_path: Path) -> None:
    tracker = opener(tmp_path / "new", 50)
    tracker.log(51, {"train/loss": 1.0})
    tracker.close()

from pathlib import Path

import numpy as np
import pytest

from jax_lm.trackers.base import Histogram
from jax_lm.trackers.tensorboard import TensorboardTracker


def test_curves_and_texts_are_read_back(tmp_path: Path) -> None:
    module = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs tensorboard"
    )
    tracker = TensorboardTracker(tmp_path)
    for step in range(1, 6):
        tracker.log(step, {"train/loss": 10.0 - step})
    tracker.sample(5, "def ", "main():\n    pass")
    tracker.close()
    tracker.log(9, {"train/loss": 0.0})  # nothing happens once it is closed
    resumed = TensorboardTracker(tmp_path, resume_step=3)
    resumed.log(4, {"train/loss": 1.5})
    resumed.close()
    events = module.EventAccumulator(str(tmp_path)).Reload()
    curve = {event.step: event.value for event in events.Scalars("train/loss")}
    assert curve == {1: 9.0, 2: 8.0, 3: 7.0, 4: 1.5}


def test_histograms_are_read_back(tmp_path: Path) -> None:
    module = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs tensorboard"
    )
    tracker = TensorboardTracker(tmp_path)
    one = Histogram(np.array([1, 0, 5]), np.array([-1.0, -0.5, 0.5, 1.0]))
    tracker.histogram(3, {"gradients/a": one})
    tracker.close()
    tracker.histogram(4, {"gradients/a": one})
    (event,) = module.EventAccumulator(str(tmp_path)).Reload().Histograms("gradients/a")
    value = event.histogram_value
    assert (event.step, value.num, value.min, value.max) == (3, 6, -1.0, 1.0)
    assert list(value.bucket_limit) == [-0.5, 0.5, 1.0]
    assert list(value.bucket) == [1, 0, 5]


def test_samples_become_text(tmp_path: Path) -> None:
    tracker = TensorboardTracker(tmp_path)
    tracker.sample(1, "def ", "main():\n    pass")
    tracker.close()
    (file,) = tmp_path.iterdir()
    assert b"    def main():\n        pass" in file.read_bytes()

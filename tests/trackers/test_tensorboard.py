from pathlib import Path

import pytest

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


def test_samples_become_text(tmp_path: Path) -> None:
    tracker = TensorboardTracker(tmp_path)
    tracker.sample(1, "def ", "main():\n    pass")
    tracker.close()
    (file,) = tmp_path.iterdir()
    assert b"    def main():\n        pass" in file.read_bytes()

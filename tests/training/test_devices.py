"""The same run on one device and on four."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jax_lm.trackers.jsonl import read_metrics
from tests.conftest import FAST_COMPILATION, TinyFeatures


@pytest.mark.slow
def test_four_devices_train_as_one(tiny_features: TinyFeatures, tmp_path: Path) -> None:
    losses = []
    for devices, batch in ((1, "--batch-size=8"), (4, "--batch-size-per-device=2")):
        run = tmp_path / str(devices)
        command = [
            *(sys.executable, "-m", "jax_lm", "train", "shakespeare-char", batch),
            *("--data.train", tiny_features.train, "--data.validation", tiny_features.held_out),
            *("--run-dir", str(run), "--model.context-length", "32", "--model.num-layers", "2"),
            *("--steps", "5", "--tracking.every", "1", "--evaluation.sample-tokens", "0"),
        ]
        flags = f"{FAST_COMPILATION} --xla_force_host_platform_device_count={devices}"
        environment = os.environ | {"XLA_FLAGS": flags}
        subprocess.run(command, check=True, capture_output=True, timeout=200, env=environment)
        rows = read_metrics(run / "metrics.jsonl")
        losses.append([row.get("train/loss", row.get("val/loss")) for row in rows])
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert len(losses[0]) == 7

"""SIGKILL in the middle of training, for real."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.conftest import TinyFeatures
from tests.training.same_run import assert_same_run


def command(features: TinyFeatures, run_dir: Path) -> list[str]:
    flags = {
        "--data.train": features.train,
        "--data.validation": features.held_out,
        "--run-dir": str(run_dir),
        "--model.context-length": "32",
        "--model.embed-dim": "32",
        "--model.num-layers": "2",
        "--model.dropout": "0.1",
        "--steps": "300",
        "--batch-size": "4",
        "--evaluation.every": "50",
        "--evaluation.sample-tokens": "0",
        "--checkpoint.every": "10",
        "--resume": "auto",
    }
    words = [word for flag in flags.items() for word in flag]
    return [sys.executable, "-m", "jax_lm", "train", "shakespeare-char", *words]


def test_a_killed_run_goes_on_bit_by_bit(tiny_features: TinyFeatures, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(command(tiny_features, whole), check=True, capture_output=True, timeout=300)
    process = subprocess.Popen(
        command(tiny_features, killed), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while not (killed / "checkpoints" / "step-00000060").exists():
        assert time.monotonic() < deadline, "the run never reached step 60"
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (killed / "final").exists()
    resumed = subprocess.run(
        command(tiny_features, killed), check=True, capture_output=True, text=True, timeout=300
    )
    assert "continuing after step" in resumed.stdout
    assert_same_run(str(whole), str(killed))

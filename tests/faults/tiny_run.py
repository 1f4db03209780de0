"""A run of seconds that is disturbed from outside, and its undisturbed twin."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jax_lm.dataclass_json import to_json
from jax_lm.models.gpt2 import GPT2Config
from jax_lm.optimizers.config import OptimizerConfig
from jax_lm.training.config import (
    CheckpointConfig,
    DataConfig,
    EvaluationConfig,
    TrackingConfig,
    TrainConfig,
)
from tests.conftest import TinyFeatures

ROOT = Path(__file__).resolve().parents[2]
MARKED = str(Path(__file__).with_name("marked_train.py"))


def tiny_config(features: TinyFeatures, run_dir: Path, **changes: Any) -> TrainConfig:
    """Dropout, several evaluations and checkpoints; goes on where it was stopped."""
    settings: dict[str, Any] = {
        "model": GPT2Config(
            context_length=32, num_layers=1, num_heads=2, embed_dim=16, dropout=0.1
        ),
        "data": DataConfig(train=(features.train,), validation=(features.held_out,)),
        "optimizer": OptimizerConfig(learning_rate=1e-2, warmup_steps=10),
        "evaluation": EvaluationConfig(every=20, sample_tokens=0, max_rows=8),
        "checkpoint": CheckpointConfig(every=10, keep=3),
        "tracking": TrackingConfig(every=5, tensorboard=False),
        "run_dir": str(run_dir),
        "steps": 40,
        "batch_size": 4,
        "resume": "auto",
    }
    return TrainConfig(**(settings | changes))


def start(config: TrainConfig, *arguments: str, log: Path) -> "subprocess.Popen[bytes]":
    """The run in a process of its own; ``arguments`` are those of Python, ``-m jax_lm`` if none."""
    given = log.with_suffix(".json")
    given.write_text(json.dumps(to_json(config)))
    program = arguments or ("-m", "jax_lm")
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, *program, "train", "--config", str(given)],
            stdout=output,
            stderr=output,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )


def wait_for(
    condition: Callable[[], bool], process: "subprocess.Popen[bytes]", seconds: float = 120
) -> bool:
    """Wait until ``condition`` holds; False where the process ended before."""
    deadline = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None:
            return False
        assert time.monotonic() < deadline, "the run never came so far"
        time.sleep(0.002)
    return True


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> bool:
    """Wait until ``condition`` holds; False where it does not within so long."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.002)
    return condition()


def quiet(line: str) -> None:
    """Says nothing."""

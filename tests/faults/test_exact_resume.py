"""Kills at random moments change nothing: not a weight, not a logged loss, to the last bit."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from jax_lm.checkpoints import list_steps, read_best, step_directory
from jax_lm.optimizers.config import OptimizerConfig
from jax_lm.training.config import (
    CheckpointConfig,
    DataConfig,
    EvaluationConfig,
    TrackingConfig,
    TrainConfig,
)
from jax_lm.training.run import train
from tests.conftest import TinyFeatures
from tests.faults.tiny_run import quiet, start, tiny_config, wait_for
from tests.training.same_run import assert_same_run

NUM_KILLS = 20
LOOP_SECONDS = 0.4
"""Kills while steps are taken come at most so long after the first checkpoint of a process."""


@pytest.fixture(scope="module")
def undisturbed(tiny_features: TinyFeatures, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(long_config(tiny_features, tmp_path_factory.mktemp("whole") / "run"), quiet)


def long_config(features: TinyFeatures, run_dir: Path) -> TrainConfig:
    """A mixture of two sets, dropout, accumulation, averaged weights: all that has a state."""
    return tiny_config(
        features,
        run_dir,
        steps=1200,
        data=DataConfig(
            train=(f"{features.train}=0.8", f"{features.held_out}=0.2"),
            validation=(features.held_out,),
        ),
        optimizer=OptimizerConfig(learning_rate=1e-2, warmup_steps=10, ema_decay=0.99),
        accumulation_steps=2,
        checkpoint=CheckpointConfig(every=20, keep=3, best="val/loss"),
        evaluation=EvaluationConfig(every=100, sample_tokens=0, max_rows=8),
        tracking=TrackingConfig(every=1, tensorboard=False),
    )


def assert_undisturbed(undisturbed: Path, run_dir: str) -> None:
    """Arrays, logs, and which checkpoints are kept are those of the run that nothing disturbed."""
    assert (undisturbed / "final" / "model.safetensors").is_file()
    assert_same_run(str(undisturbed), run_dir)
    expected, found = (Path(run) / "checkpoints" for run in (undisturbed, run_dir))
    assert list_steps(found) == list_steps(expected)
    assert read_best(found) == read_best(expected)


def newest_step(config: TrainConfig) -> int:
    return max(list_steps(Path(config.run_dir) / "checkpoints"), default=-1)


def strike(
    process: "subprocess.Popen[bytes]",
    config: TrainConfig,
    moment: str,
    chance: random.Random,
    number: signal.Signals = signal.SIGKILL,
) -> bool:
    """Send a signal at a random moment of a kind; False where the run ended first."""
    checkpoints = Path(config.run_dir) / "checkpoints"
    if moment == "starting":
        time.sleep(chance.uniform(0.0, 6.0))
    else:
        before = newest_step(config)
        if not wait_for(lambda: newest_step(config) > before, process):
            return False
        time.sleep(chance.uniform(0.0, LOOP_SECONDS))
    if moment == "writing":
        if not wait_for(lambda: any(checkpoints.glob("_step-*")), process):
            return False
        time.sleep(chance.choice([0.0, chance.uniform(0.0, 0.05)]))
    if process.poll() is not None:
        return False
    os.kill(process.pid, number)
    process.wait()
    return True


@pytest.mark.slow
def test_killed_at_twenty_random_moments(
    undisturbed: Path, tiny_features: TinyFeatures, tmp_path: Path
) -> None:
    chance, kills, runs, left_unfinished = random.Random(20), 0, 0, 0
    while kills < NUM_KILLS:
        config = long_config(tiny_features, tmp_path / f"run-{runs}")
        runs += 1
        while kills < NUM_KILLS:
            process = start(config, log=tmp_path / "log")
            moment = chance.choices(["starting", "training", "writing"], [1, 3, 4])[0]
            if not strike(process, config, moment, chance):
                assert process.wait() == 0, (tmp_path / "log").read_text()[-2000:]
                break
            kills += 1
            left_unfinished += any((Path(config.run_dir) / "checkpoints").glob("_step-*"))
        train(config, quiet)
        assert_undisturbed(undisturbed, config.run_dir)
    assert left_unfinished >= 3, "hardly a kill came in the middle of a checkpoint"


@pytest.mark.slow
def test_stopped_by_signals_at_random_moments(
    undisturbed: Path, tiny_features: TinyFeatures, tmp_path: Path
) -> None:
    chance, config = random.Random(7), long_config(tiny_features, tmp_path / "run")
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGTERM):
        process = start(config, log=tmp_path / "log")
        assert strike(process, config, "writing", chance, number), "the run ended first"
        assert process.returncode == 75, (tmp_path / "log").read_text()[-2000:]
    train(config, quiet)
    assert_undisturbed(undisturbed, config.run_dir)


@pytest.mark.slow
def test_a_flipped_byte_in_the_newest(
    undisturbed: Path, tiny_features: TinyFeatures, tmp_path: Path
) -> None:
    config, checkpoints = long_config(tiny_features, tmp_path / "run"), tmp_path / "run/checkpoints"
    process = start(config, log=tmp_path / "log")
    assert wait_for(lambda: len(list_steps(checkpoints)) > 2, process), (
        tmp_path / "log"
    ).read_text()
    process.kill()
    process.wait()
    with (tmp_path / "run" / "metrics.jsonl").open("ab") as metrics:
        metrics.write(b'{"step": 1199, "train/lo')
    *_, before, newest = (step_directory(checkpoints, step) for step in list_steps(checkpoints))
    largest = max((path for path in newest.rglob("*") if path.is_file()), key=_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 1
    largest.write_bytes(data)
    said: list[str] = []
    train(config, said.append)
    name = largest.relative_to(newest).as_posix()
    assert f"refused {newest}: damaged checkpoint: {name}" in said
    assert any(f"continuing after step {int(before.name[5:])}" in line for line in said)
    assert_undisturbed(undisturbed, config.run_dir)


def _size(path: Path) -> int:
    return path.stat().st_size

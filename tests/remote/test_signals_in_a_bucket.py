"""SIGTERM, and a second machine, while ``jax-lm train`` writes to a bucket."""

import dataclasses
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jax_lm.training.config import TrainConfig
from jax_lm.training.run import train
from tests.conftest import TinyFeatures
from tests.faults.tiny_run import start, tiny_config, wait_for
from tests.remote.buckets import google_bucket
from tests.training.same_run import numbers

BUCKET = "stopped"


@pytest.fixture(scope="module")
def bucket(google_storage: str) -> Iterator[Any]:
    with google_bucket(google_storage, BUCKET) as filesystem:
        yield filesystem


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Be on a machine of that name; gives the log of what is started there."""

    def be_on(name: str) -> Path:
        monkeypatch.setenv("JAX_LM_CACHE", str(tmp_path / name))
        return tmp_path / f"{name}.log"

    return be_on


def in_bucket(features: TinyFeatures, name: str, steps: int) -> TrainConfig:
    config = tiny_config(features, Path("unused"), steps=steps)
    optimizer = dataclasses.replace(config.optimizer, schedule="constant")
    return dataclasses.replace(config, run_dir=f"gs://{BUCKET}/{name}", optimizer=optimizer)


def stored_steps(bucket: Any, name: str) -> list[int]:
    bucket.invalidate_cache()
    found = bucket.glob(f"{BUCKET}/{name}/checkpoints/step-*/checksums.json")
    return sorted(int(path.split("/")[-2][5:]) for path in found)


def started(config: TrainConfig, bucket: Any, name: str, log: Path) -> "subprocess.Popen[bytes]":
    """A run in a process of its own that has sent a checkpoint of its own."""
    before = max(stored_steps(bucket, name), default=0)
    process = start(config, log=log)
    sent = wait_for(lambda: max(stored_steps(bucket, name), default=0) > before, process)
    assert sent, log.read_text()[-2000:]
    return process


@pytest.mark.slow
def test_sigterm_sends_the_last_step_and_another_machine_goes_on(
    bucket: Any, machine: Callable[[str], Path], tiny_features: TinyFeatures, tmp_path: Path
) -> None:
    config, log = in_bucket(tiny_features, "run", steps=100_000), machine("first")
    process = started(config, bucket, "run", log)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=120) == 75, log.read_text()[-2000:]
    last = stored_steps(bucket, "run")[-1]
    stopped = f"stopped by SIGTERM; saved step {last} in gs://{BUCKET}/run; continue with the same"
    assert stopped in log.read_text()
    machine("second")
    said: list[str] = []
    config = dataclasses.replace(config, steps=last + 25)
    resumed = train(config, said.append)
    assert f"run       gs://{BUCKET}/run, continuing after step {last:,}" in said
    assert not any(line.startswith("taken over") for line in said)
    assert stored_steps(bucket, "run")[-1] == last + 25
    whole = train(
        dataclasses.replace(config, run_dir=str(tmp_path / "whole"), resume="never"), said.append
    )
    assert numbers(str(resumed)) == numbers(str(whole))


@pytest.mark.slow
def test_a_second_machine_ends_the_first(
    bucket: Any, machine: Callable[[str], Path], tiny_features: TinyFeatures
) -> None:
    config, log = in_bucket(tiny_features, "taken", steps=100_000), machine("first")
    first = started(config, bucket, "taken", log)
    second_log = machine("second")
    second = started(config, bucket, "taken", second_log)
    assert first.wait(timeout=120) == 1, log.read_text()[-2000:]
    assert f"jax-lm: gs://{BUCKET}/taken: the run was taken over by " in log.read_text()
    assert "Traceback" not in log.read_text()
    assert "\ntaken over from " in f"\n{second_log.read_text()}"
    second.send_signal(signal.SIGTERM)
    assert second.wait(timeout=120) == 75, second_log.read_text()[-2000:]
    last = stored_steps(bucket, "taken")[-1]
    assert f"stopped by SIGTERM; saved step {last} in" in second_log.read_text()

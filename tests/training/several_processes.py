"""Runs of several processes on this machine, one device each, and of one with as many devices."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jax_lm.checkpoints import list_steps
from jax_lm.trackers.jsonl import read_metrics
from tests.conftest import FAST_COMPILATION, TinyFeatures

MODEL = (
    *("--model.context-length=32", "--model.num-layers=2", "--model.embed-dim=32"),
    *("--model.num-heads=2", "--model.dropout=0.1", "--optimizer.schedule=constant"),
    *("--optimizer.warmup-steps=2", "--batch-size=8", "--tracking.every=1"),
    *("--tracking.no-tensorboard", "--evaluation.max-rows=12"),
)
COUNTED = ("step", "train/loss", "train/grad_norm", "train/tokens", "val/loss", "val/bits_per_byte")


def command(features: TinyFeatures, run: Path, *more: str) -> list[str]:
    return [
        *(sys.executable, "-m", "jax_lm", "train", "shakespeare-char"),
        *("--data.train", features.train, "--data.validation", features.held_out),
        *("--run-dir", str(run), *MODEL, *more),
    ]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def is_free(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) != 0


def environment(devices: int = 1) -> dict[str, str]:
    flags = f"{FAST_COMPILATION} --xla_force_host_platform_device_count={devices}"
    return os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}


@contextmanager
def started(words: Sequence[str], count: int = 2) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes of one run; what is left of them at the end is killed."""
    address = ("--coordinator", f"127.0.0.1:{free_port()}", "--num-processes", str(count))
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [
        subprocess.Popen([*words, *address, "--process-id", str(index)], env=environment(), **pipes)
        for index in range(count)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def outcome(processes: Sequence[subprocess.Popen[str]], seconds: float = 200) -> list[Any]:
    """Exit code, stdout and stderr of each."""
    deadline = time.monotonic() + seconds
    found = []
    for process in processes:
        out, err = process.communicate(timeout=max(1, deadline - time.monotonic()))
        found.append((process.returncode, out, err))
    return found


def run_together(words: Sequence[str]) -> list[Any]:
    """Two processes to the end; a failure is shown."""
    with started(words) as processes:
        found = outcome(processes)
    assert [code for code, _, _ in found] == [0, 0], found
    return found


def run_alone(words: Sequence[str], devices: int = 2) -> str:
    """One process with several devices."""
    ended = subprocess.run(
        words, env=environment(devices), capture_output=True, text=True, timeout=200, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def numbers(run: Path) -> list[dict[str, float]]:
    """What was computed, without what depends on the clock."""
    rows = read_metrics(run / "metrics.jsonl")
    return [{key: row[key] for key in COUNTED if key in row} for row in rows]


def wait_until(true: Callable[[], bool], processes: Sequence[subprocess.Popen[str]]) -> None:
    deadline = time.monotonic() + 120
    while not true():
        assert time.monotonic() < deadline
        assert all(process.poll() is None for process in processes), outcome(processes)
        time.sleep(0.05)


def has_checkpoint(run: Path, step: int) -> Callable[[], bool]:
    return lambda: any(saved >= step for saved in list_steps(run / "checkpoints"))

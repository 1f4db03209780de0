"""Two processes over the loopback, one device each, as two hosts are."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from jax_lm.checkpoints import list_steps
from tests.conftest import TinyFeatures
from tests.faults.tiny_run import MARKED
from tests.training.several_processes import (
    command,
    environment,
    free_port,
    has_checkpoint,
    numbers,
    outcome,
    run_alone,
    run_together,
    started,
    wait_until,
)

ENDLESS = ("--steps=1000000", "--checkpoint.every=4", "--evaluation.every=0")


@pytest.mark.slow
def test_two_processes_train_as_two_devices(tiny_features: TinyFeatures, tmp_path: Path) -> None:
    short = ("--steps=4", "--evaluation.sample-tokens=0")
    found = run_together(command(tiny_features, tmp_path / "two", *short))
    run_alone(command(tiny_features, tmp_path / "one", *short))
    assert numbers(tmp_path / "two") == numbers(tmp_path / "one")
    assert len(numbers(tmp_path / "two")) == 6
    weights = "final/model.safetensors"
    assert (tmp_path / "two" / weights).read_bytes() == (tmp_path / "one" / weights).read_bytes()
    assert "jax-lm" not in found[1][2]
    assert "loss" not in found[1][1]


@pytest.mark.slow
@pytest.mark.parametrize("axis", ["fsdp", "tensor", "sequence"])
def test_every_axis_may_cross_hosts(axis: str, tiny_features: TinyFeatures, tmp_path: Path) -> None:
    more = ("--steps=6", f"--mesh.{axis}=2", "--accumulation-steps=2", "--evaluation.every=3")
    more += (
        "--evaluation.sample-tokens=4",
        "--tracking.histograms=2",
        "--checkpoint.best=val/loss",
    )
    run_together(command(tiny_features, tmp_path / "two", *more))
    run_alone(command(tiny_features, tmp_path / "one", *more))
    assert numbers(tmp_path / "two") == numbers(tmp_path / "one")
    for name in ("samples/step-00000006.txt", "final/model.safetensors"):
        assert (tmp_path / "two" / name).read_bytes() == (tmp_path / "one" / name).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_process_ends_the_other(
    victim: int, tiny_features: TinyFeatures, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    with started(command(tiny_features, run, *ENDLESS)) as processes:
        wait_until(has_checkpoint(run, 8), processes)
        processes[victim].kill()
        killed = time.monotonic()
        code, _, said = outcome([processes[1 - victim]], seconds=60)[0]
        assert time.monotonic() - killed < 60
    assert code == 1
    sentence = said.splitlines()[-1]
    assert sentence.startswith(f"jax-lm: process {victim} (")
    assert "was lost" in sentence
    assert "--resume auto" in sentence
    _goes_on_as_if_undisturbed(tiny_features, run)


def _goes_on_as_if_undisturbed(features: TinyFeatures, run: Path) -> None:
    """From the newest checkpoint, as two processes and as one, with the same losses."""
    newest = list_steps(run / "checkpoints")[-1]
    more = (f"--steps={newest + 5}", "--checkpoint.every=1000", "--evaluation.every=0")
    copy, whole = run.with_name("copy"), run.with_name("whole")
    shutil.copytree(run, copy)
    run_together(command(features, run, *more, "--resume=auto"))
    run_alone(command(features, copy, *more, "--resume=auto"))
    run_alone(command(features, whole, *more))
    expected = numbers(whole)[-6:]
    assert expected[0]["step"] == newest + 1
    assert numbers(run)[-6:] == expected
    assert numbers(copy)[-6:] == expected
    weights = (whole / "final" / "model.safetensors").read_bytes()
    assert (run / "final" / "model.safetensors").read_bytes() == weights
    assert (copy / "final" / "model.safetensors").read_bytes() == weights


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_one_stops_both(
    number: signal.Signals, tiny_features: TinyFeatures, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    with started(command(tiny_features, run, *ENDLESS)) as processes:
        wait_until(has_checkpoint(run, 4), processes)
        processes[1].send_signal(number)
        found = outcome(processes, seconds=60)
    code = 130 if number == signal.SIGINT else 75
    assert [one[0] for one in found] == [code, code], found
    saved = list_steps(run / "checkpoints")[-1]
    for _, _, said in found:
        assert f"saved step {saved} in {run}; continue with the same command" in said
    if number == signal.SIGTERM:
        _goes_on_as_if_undisturbed(tiny_features, run)


@pytest.mark.slow
def test_a_signal_in_an_evaluation_stops_both(tiny_features: TinyFeatures, tmp_path: Path) -> None:
    """Both leave the evaluation, and make up for it when they go on."""
    run, mark = tmp_path / "run", tmp_path / "mark"
    more = ("--steps=8", "--evaluation.every=4", "--evaluation.batch-size=2")
    more += ("--evaluation.sample-tokens=0", "--checkpoint.every=8")
    words = command(tiny_features, run, *more)
    words[1:3] = MARKED, "evaluation", str(mark)  # in the place of -m jax_lm
    with started(words) as processes:
        wait_until(mark.exists, processes)
        processes[1].send_signal(signal.SIGUSR1)
        found = outcome(processes, seconds=90)
    assert [one[0] for one in found] == [75, 75], found
    assert list_steps(run / "checkpoints") == [4]
    assert "val/loss" not in numbers(run)[-1]
    run_together(command(tiny_features, run, *more, "--resume=auto"))
    whole = tmp_path / "whole"
    run_alone(command(tiny_features, whole, *more))
    assert numbers(run) == numbers(whole)
    assert [row["step"] for row in numbers(run) if "val/loss" in row] == [0, 4, 8]
    weights = "final/model.safetensors"
    assert (run / weights).read_bytes() == (whole / weights).read_bytes()


@pytest.mark.slow
def test_time_is_up_for_both_at_once(tiny_features: TinyFeatures, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run_together(command(tiny_features, run, *ENDLESS[:1], "--max-time=0.05"))
    assert (run / "final" / "model.safetensors").is_file()
    assert numbers(run)[-1]["step"] == list_steps(run / "checkpoints")[-1]


@pytest.mark.slow
def test_what_one_process_cannot_read_is_told(tiny_features: TinyFeatures, tmp_path: Path) -> None:
    words = command(tiny_features, tmp_path / "run", "--steps=4")
    words[words.index(tiny_features.train)] = str(tmp_path / "nothing")
    with started(words) as processes:
        found = outcome(processes, seconds=90)
    for code, _, said in found:
        assert code == 1
        assert f"jax-lm: {tmp_path / 'nothing'}" in said
        assert "Traceback" not in said


READING = """
import itertools, json, sys
from jax_lm.training.hosts.distributed import Processes, joined
address, index, count, prefix = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
processes = Processes(coordinator=address, count=count, index=index)
with joined(processes if count > 1 else None):
    from jax.experimental.multihost_utils import process_allgather
    from jax_lm.loading.loader import Loader
    from jax_lm.loading.rows import open_rows
    from jax_lm.objectives.causal_lm import causal_lm
    from jax_lm.sharding.mesh import make_mesh
    from jax_lm.sharding.placing import batch_sharding, own_rows, put_batch

    class Noting:
        def __init__(self, rows):
            self.rows, self.taken = rows, []

        def __len__(self):
            return len(self.rows)

        def take(self, indices):
            self.taken.append(indices.tolist())
            return self.rows.take(indices)

    rows, sharding = Noting(open_rows(prefix, lambda line: None)), batch_sharding(make_mesh())
    own = own_rows(sharding, 8)
    with Loader(rows, causal_lm, batch_size=8, seed=3, own_rows=own) as loader:
        batches = [put_batch(one, sharding, 8) for one in itertools.islice(loader, 3)]
    whole = [process_allgather(one.input_ids, tiled=True).tolist() for one in batches]
    print(json.dumps({"read": rows.taken[:3], "batches": whole}))
"""


@pytest.mark.slow
def test_each_process_reads_its_rows_of_the_batches_of_one(tiny_features: TinyFeatures) -> None:
    def read(count: int) -> list[dict[str, Any]]:
        program = [sys.executable, "-c", READING, f"127.0.0.1:{free_port()}"]
        processes = [
            subprocess.Popen(
                [*program, str(index), str(count), tiny_features.train],
                env=environment(devices=2 // count),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for index in range(count)
        ]
        found = outcome(processes, seconds=60)
        assert [one[0] for one in found] == [0] * count, found
        return [json.loads(one[1].splitlines()[-1]) for one in found]

    (whole,), (first, second) = read(1), read(2)
    assert first["batches"] == second["batches"] == whole["batches"]
    assert [one + other for one, other in zip(first["read"], second["read"], strict=True)] == (
        whole["read"]
    )
    assert {len(rows) for rows in first["read"]} == {4}

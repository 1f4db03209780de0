"""Saves that fail in one process of two: both go on, and the next save works."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jax_lm.checkpoints import list_steps, verify_checkpoint
from tests.training.several_processes import environment, free_port, outcome

SAVING = """
import json, sys
from pathlib import Path
from jax_lm.training.hosts.distributed import Processes, joined
address, index, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
with joined(Processes(coordinator=address, count=2, index=index)):
    import jax
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec
    from jax_lm.checkpoints import CheckpointWriter, Progress, restore_arrays, saving
    from jax_lm.sharding.mesh import MeshConfig, make_mesh
    from jax_lm.training.config import CheckpointConfig

    mesh = make_mesh(MeshConfig(fsdp=2))
    shards = NamedSharding(mesh, PartitionSpec("fsdp"))
    weight = jax.make_array_from_callback((8, 4), shards, lambda at: np.zeros((8, 4), "f4")[at])
    step = jax.jit(lambda weight: weight + 1 + 0 * weight.sum())  # needs the other process
    saved, told = [], []
    writer = CheckpointWriter(folder, CheckpointConfig(keep=9), say=told.append)

    def save(number):
        global weight
        weight = step(weight)
        state = {"model": {"weight": weight}, "optimizer": {"step": np.asarray(number, "i4")}}
        progress = Progress(step=number, position=number, tokens=number, data="")
        begun = writer.save(state, progress, {})
        weight = step(weight)
        try:
            writer.wait()
            saved.append([number, begun, "saved"])
        except Exception as error:
            saved.append([number, begun, str(error)])

    def failing(number, process, name):
        whole = getattr(saving, name)
        def fail(*args):
            result = whole(*args)
            raise OSError(28, f"no room in {name}")
        if index == process:
            setattr(saving, name, fail)
        save(number)
        setattr(saving, name, whole)

    save(1)
    for process in (0, 1):
        for name in ("out_of_reach", "_checkpointer", "_finish"):
            failing(2, process, name)
    save(3)
    failing(4, 0, "write_checksums")
    save(4)
    like = jax.ShapeDtypeStruct((8, 4), "f4", sharding=shards)
    found = restore_arrays(folder / "step-00000004" / "model", {"weight": like})["weight"]
    parts = [np.asarray(one.data) for one in found.addressable_shards]
    values = np.unique(parts).tolist()
    print(json.dumps({"saved": saved, "told": told, "values": values}))
"""


@pytest.mark.slow
def test_a_save_that_fails_in_one_process_fails_in_both_and_the_next_one_works(
    tmp_path: Path,
) -> None:
    program = [sys.executable, "-c", SAVING, f"127.0.0.1:{free_port()}"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [
        subprocess.Popen([*program, str(index), str(tmp_path)], env=environment(), **pipes)
        for index in (0, 1)
    ]
    try:
        found = outcome(processes, seconds=120)
    finally:
        for process in processes:
            process.kill()
    assert [one[0] for one in found] == [0, 0], found
    first, second = (json.loads(one[1].splitlines()[-1]) for one in found)
    steps = [1, *[2] * 6, 3, 4, 4]
    whole = [number for number, _, outcome in first["saved"] if outcome == "saved"]
    assert [number for number, _, _ in first["saved"]] == steps
    assert whole == [1, 3, 4]
    assert [(one, begun) for one, begun, _ in first["saved"]] == [
        (one, begun) for one, begun, _ in second["saved"]
    ]
    places = ["out_of_reach", "_checkpointer", "_finish"]
    reasons = [*places, *places, "write_checksums"]
    for side, others in ((first, reasons[3:6]), (second, [*reasons[:3], reasons[6]])):
        told = [line.rsplit(" ", 1)[-1] for line in side["told"]]
        assert told == reasons
        named = [line for line in side["told"] if "process " in line]
        assert [line.rsplit(" ", 1)[-1] for line in named] == others
    assert first["values"] == second["values"] == [2.0 * len(steps) - 1]
    assert list_steps(tmp_path) == [1, 3, 4]
    for step in (1, 3, 4):
        verify_checkpoint(tmp_path / f"step-{step:08d}")
    assert not list(tmp_path.glob("_*"))

"""Two processes of one run that do, or do not, see the same working copy."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.training.several_processes import environment, free_port, outcome

LOCKED = """
import sys
from jax.experimental.multihost_utils import sync_global_devices
from jax_lm.training.hosts.distributed import Processes, joined
from jax_lm.training.run_directory import open_run_directory
with joined(Processes(coordinator=sys.argv[1], count=2, index=int(sys.argv[2]), start_seconds=60)):
    run = open_run_directory(sys.argv[3])
    with run.locked():
        sync_global_devices("locked")
        print([path.name for path in run.path.iterdir()])
        sync_global_devices("seen")
"""


def locked(run_dirs: tuple[str, str], caches: tuple[Path, Path]) -> list[Any]:
    """How two processes end that lock a run directory together."""
    address = f"127.0.0.1:{free_port()}"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", LOCKED, address, str(index), run_dirs[index]],
            env=environment() | {"JAX_LM_CACHE": str(caches[index])},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    return outcome(processes, seconds=100)


@pytest.mark.slow
def test_working_copies_that_are_not_shared_are_refused(tmp_path: Path) -> None:
    url, one, other = "gs://bucket/run", tmp_path / "one", tmp_path / "other"
    for run_dirs, caches, told in (
        ((url, url), (one, other), "must lie on a disk that all of them share: set JAX_LM_CACHE"),
        ((str(one), str(other)), (one, one), "not all hosts of the run see the same directory"),
    ):
        found = locked(run_dirs, caches)
        assert [code for code, _, _ in found] == [1, 1], found
        assert f"JaxLMError: --run-dir {run_dirs[0]}: " in found[0][2]
        assert told in found[0][2]


@pytest.mark.slow
def test_a_shared_working_copy_is_left_as_it_was(tmp_path: Path) -> None:
    found = locked(("gs://bucket/run", "gs://bucket/run"), (tmp_path, tmp_path))
    assert [code for code, _, _ in found] == [0, 0], found
    assert all(out.endswith("\n[]\n") or out == "[]\n" for _, out, _ in found), found
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]

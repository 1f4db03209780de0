"""Processes that look for each other, fail, or stay alone."""

import subprocess
import sys

import jax
import pytest

from jax_lm.cli.main import main
from tests.training.several_processes import environment, free_port, is_free, outcome

FAILING = """
import sys
from jax_lm.errors import JaxLMError
from jax_lm.training.hosts.distributed import Processes, joined
with joined(Processes(coordinator=sys.argv[1], count=2, index=int(sys.argv[2]), start_seconds=10)):
    import time
    if sys.argv[2] == sys.argv[3]:
        time.sleep(float(sys.argv[4]))
        raise JaxLMError("disk gone")
    time.sleep(float(sys.argv[5]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("failing", "seconds"),
    [(0, ("0", "60")), (1, ("0", "60")), (0, ("5", "0"))],
    ids=["the first", "the second", "the first, when the second is done and waits for it"],
)
def test_a_failure_of_one_ends_the_other(failing: int, seconds: tuple[str, str]) -> None:
    address = f"127.0.0.1:{free_port()}"
    program = [sys.executable, "-c", FAILING, address]
    processes = [
        subprocess.Popen(
            [*program, str(index), str(failing), *seconds],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    found = outcome(processes, seconds=50)
    assert [one[0] for one in found] == [1, 1], found
    assert f"process {failing} (" in found[1 - failing][2]
    assert "failed: disk gone, so" in found[1 - failing][2]


SLURM = """
from jax_lm.training.hosts.distributed import Processes, joined
with joined(Processes()):
    import jax
    print(jax.process_index(), jax.process_count(), jax.device_count())
"""


@pytest.mark.slow
def test_slurm_says_who_is_who() -> None:
    job = next(job for job in range(4096) if is_free(61440 + job))
    named = {"SLURM_JOB_ID": str(job), "SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": "2"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SLURM],
            env=environment() | named | {"SLURM_PROCID": index, "SLURM_LOCALID": index},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in ("0", "1")
    ]
    found = outcome(processes, seconds=60)
    assert [one[0] for one in found] == [0, 0], found
    assert [one[1].splitlines()[-1] for one in found] == ["0 2 2", "1 2 2"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("index", "said"),
    [("0", "not all processes of the run met at"), ("1", "process 0 did not answer there for")],
)
def test_a_process_that_stays_alone_says_so(index: str, said: str) -> None:
    address = f"127.0.0.1:{free_port()}"
    program = [sys.executable, "-c", FAILING.replace("=10", "=3"), address, index, "2", "0", "0"]
    ended = subprocess.run(
        program, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 1
    last = ended.stderr.strip().splitlines()[-1]
    assert said in last
    assert address in last


@pytest.mark.parametrize(
    ("flags", "reason", "said"),
    [
        (
            ["--distributed", "auto"],
            "coordinator_address should be defined.",
            "no SLURM, Kubernetes, Open MPI or TPU pod is recognised here",
        ),
        (["--distributed", "auto"], "the API\nis down", "could not join: the API"),
        (
            ["--coordinator", "a:1", "--num-processes", "2", "--process-id", "0"],
            "port taken",
            "--coordinator a:1: the processes could not join: port taken",
        ),
    ],
)
def test_what_jax_cannot_join_is_told(
    flags: list[str],
    reason: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError(reason)

    monkeypatch.setattr(jax.distributed, "initialize", fail)
    assert main(["train", "quickstart", *flags]) == 1
    assert said in capsys.readouterr().err

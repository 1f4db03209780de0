import pytest

from jax_lm.cli.main import main
from jax_lm.cli.processes import take_processes
from jax_lm.training.hosts.distributed import Processes

THREE = ["--coordinator", "host-a:4000", "--num-processes", "3", "--process-id", "2"]


def test_flags_of_one_process_among_several() -> None:
    processes, rest = take_processes(["--steps", "4", *THREE, "--seed=1"])
    assert processes == Processes(coordinator="host-a:4000", count=3, index=2)
    assert rest == ["--steps", "4", "--seed=1"]
    assert take_processes(["--coordinator=[::1]:1", "--num_processes=1", "--process_id=0"])[0] == (
        Processes(coordinator="[::1]:1", count=1, index=0)
    )
    assert take_processes(["--distributed", "auto", "x"]) == (Processes(), ["x"])
    assert take_processes(["--steps", "4"]) == (None, ["--steps", "4"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (THREE[:4], "--coordinator needs --process-id beside it"),
        (THREE[4:], "--process-id needs --coordinator and --num-processes beside it"),
        ([*THREE, "--distributed=auto"], "give one or the other"),
        (["--distributed", "slurm"], "--distributed slurm: the only value is auto"),
        (["--coordinator", "host-a", *THREE[2:]], "--coordinator host-a: expected HOST:PORT"),
        ([*THREE[:2], "--num-processes=0", "--process-id=0"], "--num-processes 0: expected"),
        ([*THREE[:5], "3"], "--process-id 3: with --num-processes 3 the last is 2"),
    ],
)
def test_flags_that_make_no_sense(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "shakespeare-char", *words]) == 2
    assert said in capsys.readouterr().err

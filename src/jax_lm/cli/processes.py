"""Flags of verbs that run as several processes at once."""

from typing import TYPE_CHECKING

from jax_lm.cli.arguments import take_value
from jax_lm.errors import UsageError

if TYPE_CHECKING:
    from jax_lm.training.hosts.distributed import Processes

SEVERAL_PROCESSES = """Several hosts: start the same command on each, with --distributed auto
on SLURM, Kubernetes or a TPU pod, else with --coordinator HOST:PORT (of process 0)
--num-processes N --process-id I.
"""


def take_processes(args: list[str]) -> tuple["Processes | None", list[str]]:
    """The processes that the command is one of, and the other arguments; None: it is alone.

    Raises:
        UsageError: the flags contradict each other, or one is missing or malformed.
    """
    values = {}
    for flag in ("--distributed", "--coordinator", "--num-processes", "--process-id"):
        values[flag], args = _take(args, flag)
    detected = values.pop("--distributed")
    given = [flag for flag, value in values.items() if value is not None]
    if detected is not None and detected != "auto":
        raise UsageError(f"--distributed {detected}: the only value is auto")
    if detected and given:
        raise UsageError(f"--distributed auto finds what {given[0]} says: give one or the other")
    if not detected and not given:
        return None, args
    if not detected and len(given) < len(values):
        missing = " and ".join(flag for flag in values if flag not in given)
        raise UsageError(f"{given[0]} needs {missing} beside it, or --distributed auto alone")
    from jax_lm.training.hosts.distributed import Processes

    if detected:
        return Processes(), args
    address = values["--coordinator"] or ""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise UsageError(f"--coordinator {address}: expected HOST:PORT of process 0")
    count = _whole("--num-processes", values["--num-processes"], 1)
    index = _whole("--process-id", values["--process-id"], 0)
    if index >= count:
        raise UsageError(
            f"--process-id {index}: with --num-processes {count} the last is {count - 1}"
        )
    return Processes(coordinator=address, count=count, index=index), args


def _take(args: list[str], flag: str) -> tuple[str | None, list[str]]:
    """The value of a flag in either spelling."""
    value, rest = take_value(args, flag)
    if value is None:
        value, rest = take_value(rest, f"--{flag[2:].replace('-', '_')}")
    return value, rest


def _whole(flag: str, value: str | None, least: int) -> int:
    if value is None or not value.isdigit() or int(value) < least:
        raise UsageError(f"{flag} {value}: expected a whole number from {least} on")
    return int(value)

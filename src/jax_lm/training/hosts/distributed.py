"""Several processes as one run: they join before anything is computed, and leave together."""

import atexit
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any

import jax
from jax._src import distributed

from jax_lm.errors import JaxLMError, SavedAndStopped, StoppedByUser
from jax_lm.training.hosts.lost_process import Place, Watch, first_line, told_on_abort

HEARTBEAT_SECONDS = 100
"""Of JAX; longer than ours, which name the process that was lost."""
SHUTDOWN_SECONDS = 4 * 3600
"""How long those that are done wait for process 0, which may still upload a large model; one that
is lost or fails meanwhile is noticed as ever."""


@dataclass(frozen=True, kw_only=True)
class Processes:
    """Where the processes of a run meet; without an address, as the cluster says."""

    coordinator: str | None = None
    """HOST:PORT of process 0."""
    count: int | None = None
    index: int | None = None
    """Of this process, from 0."""
    start_seconds: int = 300
    """How long processes wait for each other at the start."""


@contextmanager
def joined(processes: Processes | None) -> Iterator[None]:
    """Be one of the processes of a run inside; None: be alone.

    Called before JAX computes anything. Inside, a thread watches the other processes: when one is
    lost or fails, this one ends with exit code 1 and a sentence that names it.

    Raises:
        JaxLMError: the others cannot be reached, or there is no cluster that says where they are.
    """
    if processes is None:
        yield
        return
    place = _initialize(processes)
    watch = Watch(distributed.global_state.client, place)
    with told_on_abort(watch.last_words), watch:
        try:
            yield
        except (SavedAndStopped, StoppedByUser):  # as all of them
            _leave()
            raise
        except BaseException as error:
            _leave_failed(watch, error)
            raise
        _leave()


def _initialize(processes: Processes) -> Place:
    """Join the others, and learn where they run."""
    if processes.coordinator is not None and processes.index:
        _await(processes.coordinator, processes.start_seconds)
    # Signals are ours: without this SIGTERM would be noted by JAX, and nothing would come of it.
    jax.config.update("jax_enable_preemption_service", False)
    with told_on_abort(lambda: _not_met(processes)):
        try:
            jax.distributed.initialize(
                processes.coordinator,
                processes.count,
                processes.index,
                cluster_detection_method=None if processes.coordinator is None else "deactivate",
                initialization_timeout=processes.start_seconds,
                heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
                shutdown_timeout_seconds=SHUTDOWN_SECONDS,
            )
        except (ValueError, RuntimeError, OSError) as error:
            raise JaxLMError(_not_joined(processes, error)) from error
    state: Any = distributed.global_state
    hosts = _told(state.client, state.process_id, state.num_processes, processes.start_seconds)
    return Place(state.process_id, hosts, state.coordinator_address)


def _await(address: str, seconds: int) -> None:
    """Wait for the coordinator to listen; JAX would end the process where it does not.

    Raises:
        JaxLMError: it does not.
    """
    host, _, port = address.rpartition(":")
    deadline, reason = monotonic() + seconds, ""
    while monotonic() < deadline:
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
            return
        except OSError as error:
            reason = error.strerror or str(error)
            sleep(0.2)
    raise JaxLMError(
        f"--coordinator {address}: process 0 did not answer there for {seconds} seconds "
        f"({reason}): start it too, and see that this host reaches that port"
    )


def _not_joined(processes: Processes, error: Exception) -> str:
    reason = first_line(error)
    if processes.coordinator is not None:
        return f"--coordinator {processes.coordinator}: the processes could not join: {reason}"
    if "should be defined" in reason or "must be defined" in reason:
        return (
            "--distributed auto: no SLURM, Kubernetes, Open MPI or TPU pod is recognised here (on "
            "Kubernetes this needs pip install kubernetes): give --coordinator HOST:PORT "
            "--num-processes N --process-id I"
        )
    return f"--distributed auto: the processes could not join: {reason}"


def _not_met(processes: Processes) -> str:
    state: Any = distributed.global_state
    return (
        f"jax-lm: not all processes of the run met at {state.coordinator_address} within "
        f"{processes.start_seconds} seconds: start all of them with the same address and number of "
        "processes, and see that each host reaches that port\n"
    )


def _told(client: Any, index: int, count: int, seconds: int) -> tuple[str, ...]:
    """The name of every process's host."""
    client.key_value_set(f"jax_lm/host/{index}", socket.gethostname())
    return tuple(
        client.blocking_key_value_get(f"jax_lm/host/{other}", 1000 * seconds)
        for other in range(count)
    )


def _leave() -> None:
    """Wait for the others to come to the end too, so that nobody takes this one for lost."""
    jax.distributed.shutdown()


def _leave_failed(watch: Watch, error: BaseException) -> None:
    """Tell the others; where they have not failed in the same way, do not wait for them at exit."""
    if isinstance(error, Exception) and not isinstance(error, JaxLMError):
        watch.look_for_lost()  # which ends this process where that is what happened
    if watch.all_failed(first_line(error)):
        _leave()
        return
    code = error.exit_code if isinstance(error, JaxLMError) else 1
    atexit.register(_exit, code)


def _exit(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

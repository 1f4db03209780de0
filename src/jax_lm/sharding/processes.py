"""What the processes of a run tell each other outside its steps."""

import itertools
import json
import secrets
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeVar

import jax
import numpy as np
import orbax.checkpoint as ocp
from jax._src import distributed
from jax.experimental import multihost_utils

from jax_lm.errors import JaxLMError

BARRIER_SECONDS = 1800
"""Longer than Orbax waits for the arrays of the others."""
DECISION_SECONDS = 7 * 24 * 3600
"""Longer than any preprocessing; a process that is lost is noticed by other means."""
SEEN_SECONDS = 10
"""For a network's file system to show a new file."""
Result = TypeVar("Result")
_decisions = itertools.count()


def is_first() -> bool:
    """Whether this process writes what one process writes."""
    return bool(jax.process_index() == 0)


def together(action: Callable[[], object]) -> None:
    """Let the first process act, and all go on only where that worked; on the main thread.

    Raises:
        OSError: it failed here.
        JaxLMError: it failed in the first process.
    """
    if jax.process_count() == 1:
        action()
        return
    failure: Exception | None = None
    if is_first():
        try:
            action()
        except Exception as error:
            failure = error
    failed = multihost_utils.broadcast_one_to_all(np.int32(failure is not None))
    if failure is not None:
        raise failure
    if int(failed):
        raise JaxLMError("process 0 could not do it, and says why")


def first_decides(decide: Callable[[], Any]) -> Any:
    """What the first process decides, in all of them; no device takes part.

    Files are looked at once, so that no two processes see different states of them.

    Args:
        decide: gives something that JSON holds; called in the first process only.

    Raises:
        Exception: whatever went wrong in the first process.
        JaxLMError: the same, in the others.
    """
    if jax.process_count() == 1:
        return decide()
    client: Any = distributed.global_state.client
    key = f"jax_lm/decided/{next(_decisions)}"
    if is_first():
        try:
            value = decide()
        except Exception as error:
            client.key_value_set(key, json.dumps({"error": str(error) or repr(error)}))
            raise
        client.key_value_set(key, json.dumps({"value": value}))
        return value
    answer = json.loads(client.blocking_key_value_get(key, 1000 * DECISION_SECONDS))
    if "error" in answer:
        raise JaxLMError(answer["error"])
    return answer["value"]


def in_turn(action: Callable[[], Result]) -> Result:
    """Let the first process act, and then the others, who find the files that it has left.

    Raises:
        Exception: as ``first_decides``.
    """
    done: list[Result] = []
    first_decides(lambda: done.append(action()))
    return done[0] if done else action()


def is_shared(directory: Path) -> bool:
    """Whether all processes see what the first one writes to a directory."""
    if jax.process_count() == 1:
        return True
    name = first_decides(lambda: _leave_mark(directory))
    deadline = monotonic() + SEEN_SECONDS
    while not (seen := (directory / name).exists()) and monotonic() < deadline:
        sleep(0.1)
    shared = bool(multihost_utils.process_allgather(np.int32(seen)).all())
    if is_first():
        (directory / name).unlink()
    return shared


def mark_written(directory: Path) -> None:
    """Note in the shared directory that this process has written all of its shards."""
    if jax.process_count() > 1:
        _mark(directory, jax.process_index()).touch()


def check_written(directory: Path) -> None:
    """Refuse to go on where a process has not written its shards; the notes are removed.

    Raises:
        JaxLMError: naming the processes that failed.
    """
    if jax.process_count() == 1:
        return
    marks = {index: _mark(directory, index) for index in range(jax.process_count())}
    failed = [str(index) for index, mark in marks.items() if not mark.exists()]
    if failed:
        raise JaxLMError(f"process {', '.join(failed)} could not write its shards")
    for mark in marks.values():
        mark.unlink()


def meet(name: str) -> None:
    """Wait until all processes are here; on any thread, since no device takes part.

    Args:
        name: the same in all processes, and never used twice.
    """
    if jax.process_count() > 1:
        barrier = ocp.multihost.get_barrier_sync_fn()
        barrier(key=f"jax_lm_{name}", timeout_ms=1000 * BARRIER_SECONDS)


def _leave_mark(directory: Path) -> str:
    name = f"_shared-{secrets.token_hex(4)}"
    (directory / name).touch()
    return name


def _mark(directory: Path, index: int) -> Path:
    return directory / f"_written-{index}"

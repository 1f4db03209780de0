"""What the processes of a run tell each other outside its steps."""

import itertools
import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeVar

import jax
import numpy as np
from jax._src import distributed
from jax.experimental import multihost_utils

from jax_lm.errors import JaxLMError

DECISION_SECONDS = 7 * 24 * 3600
"""Longer than any preprocessing or save; a process that is lost is noticed by other means."""
REASON_LENGTH = 10_000
"""Characters of an error that are passed on."""
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


@contextmanager
def all_or_none(name: str) -> Iterator[None]:
    """Let what is done inside count only where it works in all processes; on any thread.

    No process goes on before all are done. No device takes part.

    Args:
        name: the same in all processes, and never used twice.

    Raises:
        Exception: what went wrong in this process.
        JaxLMError: what went wrong in another one, where all went well in this.
    """
    if jax.process_count() == 1:
        yield
        return
    failure: Exception | None = None
    try:
        yield
    except Exception as error:
        failure = error
    reasons = _reasons(name, "" if failure is None else str(failure) or repr(failure))
    if failure is not None:
        raise failure
    failed = [f"process {index}: {reason}" for index, reason in enumerate(reasons) if reason]
    if failed:
        raise JaxLMError(failed[0])


def _reasons(name: str, own: str) -> list[str]:
    """Why each process failed, empty where it did not; the first one gathers and passes on."""
    client: Any = distributed.global_state.client
    key, wait = f"jax_lm/outcome/{name}", 1000 * DECISION_SECONDS
    client.key_value_set(f"{key}/{jax.process_index()}", own[:REASON_LENGTH])
    if is_first():
        each = range(jax.process_count())
        found = [client.blocking_key_value_get(f"{key}/{index}", wait) for index in each]
        client.key_value_set(f"{key}/all", json.dumps(found))
    reasons: list[str] = json.loads(client.blocking_key_value_get(f"{key}/all", wait))
    return reasons


def _leave_mark(directory: Path) -> str:
    name = f"_shared-{secrets.token_hex(4)}"
    (directory / name).touch()
    return name

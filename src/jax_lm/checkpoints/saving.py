"""One checkpoint: begun on the training thread, completed on any."""

import itertools
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import orbax.checkpoint as ocp

from jax_lm.checkpoints.arrays import by_path, out_of_reach, silence_orbax
from jax_lm.checkpoints.layout import (
    CONFIG,
    Progress,
    remove_checkpoint,
    remove_leftovers,
    remove_tree,
    step_directory,
    temporary_directory,
    write_json,
)
from jax_lm.checkpoints.retention import remove_older
from jax_lm.checkpoints.verifying import write_checksums
from jax_lm.files.atomic import sync
from jax_lm.sharding import processes

SLOWEST_SECONDS = 3600
"""Within which all processes must have written: a terabyte each, at 300 MB a second."""
_numbers = itertools.count()


@dataclass(frozen=True)
class BegunCheckpoint:
    """Arrays on their way to a temporary directory, which becomes a checkpoint once complete."""

    progress: Progress
    temporary: Path
    final: Path
    checkpointers: tuple[ocp.StandardCheckpointer, ...]
    number: int
    """Of this save in this process, and the same in all others."""


def begin_checkpoint(checkpoints: Path, state: Any, progress: Progress) -> BegunCheckpoint:
    """Copy the arrays that this process holds into its memory, and start to write them.

    Args:
        checkpoints: the directory of all checkpoints.
        state: a dataclass or mapping of trees of arrays; each that is not None gets a directory
            of its name.
        progress: how far the run has come.

    Raises:
        OSError: it cannot be written there.
        JaxLMError: another process could not begin; then none has.
    """
    silence_orbax()
    number = next(_numbers)  # first of all: it names what processes wait for, in all of them
    temporary = temporary_directory(checkpoints, progress.step)
    checkpointers: list[ocp.StandardCheckpointer] = []
    arrays: dict[str, Any] = {}
    try:
        # Orbax's barriers wait for every process that began, so that none may before all can.
        with processes.all_or_none(f"save-{number}-prepared"):
            if processes.is_first():
                _make_anew(checkpoints, temporary)
            for name, tree in _parts(state).items():
                arrays[name] = by_path(out_of_reach(tree))
                checkpointers.append(_checkpointer(name))
        with processes.all_or_none(f"save-{number}-begun"):
            for name, checkpointer in zip(arrays, checkpointers, strict=True):
                checkpointer.save((temporary / name).absolute(), arrays[name])
    except BaseException:
        with suppress(Exception):
            _finish(checkpointers)
        if processes.is_first():
            remove_tree(temporary)
        raise
    final = step_directory(checkpoints, progress.step)
    return BegunCheckpoint(progress, temporary, final, tuple(checkpointers), number)


def complete_checkpoint(
    begun: BegunCheckpoint, config: Mapping[str, Any], metrics: Mapping[str, float] | None = None
) -> Path:
    """Wait for the arrays, add JSON and checksums, put all of it on the disk, and rename it.

    Args:
        begun: what ``begin_checkpoint`` gave.
        config: the run's resolved configuration.
        metrics: held-out metrics of this step, where it was evaluated.

    Raises:
        Exception: whatever went wrong, in all processes or in none; nothing is left under the
            final name.
    """
    temporary, final = begun.temporary, begun.final
    try:
        with processes.all_or_none(f"save-{begun.number}-written"):
            _finish(begun.checkpointers)
        with processes.all_or_none(f"save-{begun.number}-complete"):
            if processes.is_first():
                write_json(temporary, begun.progress, config, metrics)
                write_checksums(temporary)
                _sync(temporary)
                remove_checkpoint(final)
                temporary.rename(final)
    finally:
        if processes.is_first():
            remove_tree(temporary)
    return final


def save_checkpoint(
    checkpoints: Path,
    *,
    model: Any,
    optimizer: Any,
    progress: Progress,
    config: Mapping[str, Any],
    keep: int,
) -> Path:
    """Write a checkpoint while the caller waits, and remove all but the last ``keep``.

    Raises:
        OSError: it could not be written; nothing is left under the final name.
    """
    state = {"model": model, "optimizer": optimizer}
    final = complete_checkpoint(begin_checkpoint(checkpoints, state, progress), config)
    if processes.is_first():
        remove_older(checkpoints, keep=keep)
    return final


def save_model(directory: Path, *, model: Any, config: Mapping[str, Any]) -> None:
    """Write a model without its optimizer, and checksums of every file that is there by then.

    Args:
        directory: exists already; the caller gives it its final name.
        model: a tree of arrays.
        config: as in a run, at least ``{"model": ...}``.
    """
    silence_orbax()
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save((directory / "model").absolute(), by_path(model))
    (directory / CONFIG).write_text(json.dumps(config, indent=1))
    write_checksums(directory)


def _make_anew(checkpoints: Path, temporary: Path) -> None:
    remove_leftovers(checkpoints)  # on a full disk, what a failed save has left is in the way
    temporary.mkdir(parents=True)


def _parts(state: Any) -> dict[str, Any]:
    parts = state if isinstance(state, Mapping) else _fields(state)
    return {name: tree for name, tree in parts.items() if tree is not None}


def _fields(state: Any) -> dict[str, Any]:
    return {field.name: getattr(state, field.name) for field in fields(state)}


def _checkpointer(name: str) -> ocp.StandardCheckpointer:
    # Several write at once: their barriers need different names.
    return ocp.StandardCheckpointer(
        async_options=ocp.AsyncOptions(timeout_secs=SLOWEST_SECONDS),
        multiprocessing_options=ocp.options.MultiprocessingOptions(barrier_sync_key_prefix=name),
    )


def _finish(checkpointers: Iterable[ocp.StandardCheckpointer]) -> None:
    """Wait for all, and raise what went wrong in the first that failed."""
    failures = []
    for checkpointer in checkpointers:
        try:
            checkpointer.wait_until_finished()
        except Exception as error:
            failures.append(error)
        checkpointer.close()
    if failures:
        raise failures[0]


def _sync(directory: Path) -> None:
    """Put files and folders on the disk, so that the rename is the last thing to happen."""
    for path in [*directory.rglob("*"), directory, directory.parent]:
        sync(path)

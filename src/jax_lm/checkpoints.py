"""Step checkpoints: arrays (Orbax) and JSON in one directory that is complete once renamed.

``step-00001000/`` holds ``model/`` and ``optimizer/`` (arrays by path), ``progress.json``,
``config.json`` and ``checksums.json`` (sha256 of every other file, checked on restore).
"""

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import jax
import orbax.checkpoint as ocp

from jax_lm.errors import JaxLMError
from jax_lm.preprocessing.atomic import file_sha256

Tree = TypeVar("Tree")
CHECKSUMS = "checksums.json"


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a run has come."""

    step: int
    """Optimizer steps taken."""
    position: int
    """Rows consumed: the whole state of the loader."""
    tokens: int
    """Real tokens trained on."""
    data: str
    """Fingerprint of the training rows and their tokenizer."""


def step_directory(checkpoints: Path, step: int) -> Path:
    """Where the checkpoint of a step lies."""
    return checkpoints / f"step-{step:08d}"


def list_steps(checkpoints: Path) -> list[int]:
    """Steps with a complete checkpoint, oldest first."""
    found = checkpoints.glob("step-*") if checkpoints.is_dir() else ()
    return sorted(int(path.name[5:]) for path in found if path.name[5:].isdigit())


def save_checkpoint(
    checkpoints: Path,
    *,
    model: Any,
    optimizer: Any,
    progress: Progress,
    config: Mapping[str, Any],
    keep: int,
) -> Path:
    """Write a checkpoint under a temporary name, rename it, and remove all but the last ``keep``.

    Raises:
        OSError: it could not be written; nothing is left under the final name.
    """
    _silence_orbax()
    final = step_directory(checkpoints, progress.step)
    temporary = final.with_name(f"_{final.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        _save_arrays(temporary / "model", model)
        _save_arrays(temporary / "optimizer", optimizer)
        (temporary / "progress.json").write_text(json.dumps(asdict(progress)))
        (temporary / "config.json").write_text(json.dumps(config, indent=1))
        (temporary / CHECKSUMS).write_text(json.dumps(_checksums(temporary), indent=1))
        _sync(temporary)
        shutil.rmtree(final, ignore_errors=True)
        temporary.rename(final)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for step in list_steps(checkpoints)[:-keep]:
        shutil.rmtree(step_directory(checkpoints, step), ignore_errors=True)
    return final


def save_model(directory: Path, *, model: Any, config: Mapping[str, Any]) -> None:
    """Write a model without its optimizer, and checksums of every file that is there by then.

    Args:
        directory: exists already; the caller gives it its final name.
        model: a tree of arrays.
        config: as in a run, at least ``{"model": ...}``.
    """
    _silence_orbax()
    _save_arrays(directory / "model", model)
    (directory / "config.json").write_text(json.dumps(config, indent=1))
    (directory / CHECKSUMS).write_text(json.dumps(_checksums(directory), indent=1))


def verify_checkpoint(directory: Path) -> None:
    """Check every file against its checksum.

    Raises:
        JaxLMError: a file is missing, damaged or was added; all are named.
    """
    try:
        expected = json.loads((directory / CHECKSUMS).read_text())
    except (OSError, ValueError) as error:
        raise JaxLMError(f"{directory}: no readable {CHECKSUMS}: {error}") from error
    found = _checksums(directory)
    wrong = sorted(
        name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)
    )
    if wrong:
        raise JaxLMError(f"{directory}: damaged checkpoint: {', '.join(wrong)}")


def newest_valid(checkpoints: Path, say: Callable[[str], None]) -> Path | None:
    """The newest checkpoint that verifies; damaged ones are named, never passed over in silence.

    Raises:
        JaxLMError: there are checkpoints and none verifies.
    """
    steps = list_steps(checkpoints)
    for step in reversed(steps):
        directory = step_directory(checkpoints, step)
        try:
            verify_checkpoint(directory)
        except JaxLMError as error:
            say(f"refused {error}")
        else:
            return directory
    if steps:
        raise JaxLMError(
            f"{checkpoints}: none of the {len(steps)} checkpoints verifies; "
            "remove the directory or choose another --run-dir to start anew"
        )
    return None


def read_progress(directory: Path) -> Progress:
    """Progress at a checkpoint."""
    return Progress(**json.loads((directory / "progress.json").read_text()))


def read_config(directory: Path) -> dict[str, Any]:
    """The run's resolved configuration, as saved with a checkpoint."""
    config: dict[str, Any] = json.loads((directory / "config.json").read_text())
    return config


def restore_arrays(directory: Path, like: Tree) -> Tree:
    """Read a tree of arrays (``STEP/model`` or ``STEP/optimizer``).

    Args:
        directory: what ``save_checkpoint`` wrote.
        like: a tree of arrays or of ``jax.ShapeDtypeStruct``, with shardings where they matter.

    Raises:
        JaxLMError: the stored arrays do not fit ``like``.
    """
    _silence_orbax()
    abstract = {name: _abstract(leaf) for name, leaf in _by_path(like).items()}
    with ocp.StandardCheckpointer() as checkpointer:
        stored = checkpointer.metadata(directory.absolute()).item_metadata.tree
        _refuse_other_shapes(directory, _shapes(stored), _shapes(abstract))
        restored = checkpointer.restore(directory.absolute(), abstract)
    tree: Tree = jax.tree.unflatten(jax.tree.structure(like), [restored[name] for name in abstract])
    return tree


def stored_arrays(directory: Path, like: Any) -> Iterator[tuple[str, Any]]:
    """The arrays of ``STEP/model`` by path, read one by one, so that no two are held.

    Args:
        directory: what ``save_model`` or ``save_checkpoint`` wrote.
        like: a tree of ``jax.ShapeDtypeStruct``.
    """
    _silence_orbax()
    with ocp.PyTreeCheckpointer() as checkpointer:
        for name, leaf in _by_path(like).items():
            wanted = {name: _abstract(leaf)}
            how = ocp.args.PyTreeRestore(
                item=wanted,
                restore_args=ocp.checkpoint_utils.construct_restore_args(wanted),
                partial_restore=True,
            )
            yield name, checkpointer.restore(directory.absolute(), args=how)[name]


def _save_arrays(directory: Path, tree: Any) -> None:
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(directory.absolute(), _by_path(tree))


def _refuse_other_shapes(
    directory: Path, stored: Mapping[str, str], wanted: Mapping[str, str]
) -> None:
    differ = [
        f"{name} ({stored.get(name, 'absent')}, not {wanted.get(name, 'wanted')})"
        for name in sorted(stored.keys() | wanted.keys())
        if stored.get(name) != wanted.get(name)
    ]
    if differ:
        raise JaxLMError(f"{directory}: does not fit the configured model: {', '.join(differ)}")


def _shapes(arrays: Mapping[str, Any]) -> dict[str, str]:
    return {name: f"{array.dtype}{list(array.shape)}" for name, array in arrays.items()}


def _by_path(tree: Any) -> dict[str, Any]:
    """Leaves by their path, so that a checkpoint depends on names and not on Python classes."""
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in flat}


def _abstract(leaf: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=getattr(leaf, "sharding", None))


def _checksums(directory: Path) -> dict[str, str]:
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {
        path.relative_to(directory).as_posix(): file_sha256(path)
        for path in files
        if path.name != CHECKSUMS
    }


def _sync(directory: Path) -> None:
    """Put files and folders on the disk, so that the rename is the last thing to happen."""
    for path in [*directory.rglob("*"), directory, directory.parent]:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _silence_orbax() -> None:
    logging.getLogger("absl").setLevel(logging.ERROR)

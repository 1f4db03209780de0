"""Arrays of a checkpoint, read straight into their shards, whatever the mesh they come from."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import jax
import orbax.checkpoint as ocp

from jax_lm.checkpoints.arrays import abstract, by_path, silence_orbax
from jax_lm.errors import JaxLMError

Tree = TypeVar("Tree")


def restore_arrays(directory: Path, like: Tree) -> Tree:
    """Read a tree of arrays (``STEP/model`` or ``STEP/optimizer``).

    Args:
        directory: what ``save_checkpoint`` or a ``CheckpointWriter`` wrote.
        like: a tree of arrays or of ``jax.ShapeDtypeStruct``. Each process reads those parts of
            the files that its shards need; the mesh may differ from the one that was saved.

    Raises:
        JaxLMError: the stored arrays do not fit ``like``.
    """
    silence_orbax()
    wanted = {name: abstract(leaf) for name, leaf in by_path(like).items()}
    _refuse_other_shapes(directory, stored_shapes(directory), wanted_shapes(like))
    with ocp.StandardCheckpointer() as checkpointer:
        restored = checkpointer.restore(directory.absolute(), wanted)
    tree: Tree = jax.tree.unflatten(jax.tree.structure(like), [restored[name] for name in wanted])
    return tree


def restore_overlaid(directories: Sequence[Path], like: Tree) -> Tree:
    """Read each array from the first directory that has it.

    Args:
        directories: as in ``restore_arrays``; those that do not exist are passed over.
        like: as in ``restore_arrays``.

    Raises:
        JaxLMError: together they do not hold the arrays of ``like``.
    """
    shapes = {one: stored_shapes(one) for one in reversed(directories) if one.is_dir()}
    place = {name: directory for directory, names in shapes.items() for name in names}
    found = {name: shapes[directory][name] for name, directory in place.items()}
    _refuse_other_shapes(directories[-1], found, wanted_shapes(like))
    leaves, read = by_path(like), dict[str, Any]()
    for directory in shapes:
        here = {name: leaf for name, leaf in leaves.items() if place[name] == directory}
        read |= _restore_some(directory, here)
    tree: Tree = jax.tree.unflatten(jax.tree.structure(like), [read[name] for name in leaves])
    return tree


def restore_fitting(
    directory: Path, fresh: Tree, *, anew: Collection[str] = ()
) -> tuple[Tree, list[str]]:
    """Read what fits, part by part of a tree, and keep the rest as it is.

    Args:
        directory: as in ``restore_arrays``.
        fresh: arrays in their shards. A part is what lies under one top-level name: it is read
            whole or not at all.
        anew: parts that are not read even if they fit.

    Returns:
        The tree, and the parts that were kept.
    """
    stored, wanted = stored_shapes(directory), wanted_shapes(fresh)
    parts = {_part(name) for name in wanted}
    fitting = {
        part
        for part in parts
        if part not in anew and _of_part(stored, part) == _of_part(wanted, part)
    }
    leaves = by_path(fresh)
    read = {name: leaf for name, leaf in leaves.items() if _part(name) in fitting}
    restored = _restore_some(directory, read)
    tree: Tree = jax.tree.unflatten(
        jax.tree.structure(fresh), [restored.get(name, leaf) for name, leaf in leaves.items()]
    )
    return tree, sorted(parts - fitting)


def stored_arrays(directory: Path, like: Any) -> Iterator[tuple[str, Any]]:
    """The arrays of ``STEP/model`` by path, read one by one, so that no two are held.

    Args:
        directory: what ``save_model`` or ``save_checkpoint`` wrote.
        like: a tree of ``jax.ShapeDtypeStruct``.
    """
    for name, leaf in by_path(like).items():
        yield name, _restore_some(directory, {name: leaf})[name]


def stored_shapes(directory: Path) -> dict[str, str]:
    """Dtype and shape of every stored array by path."""
    silence_orbax()
    with ocp.StandardCheckpointer() as checkpointer:
        return _shapes(checkpointer.metadata(directory.absolute()).item_metadata.tree)


def wanted_shapes(tree: Any) -> dict[str, str]:
    """Dtype and shape of every array of a tree by path, as ``stored_shapes`` has them."""
    return _shapes(by_path(tree))


def _restore_some(directory: Path, leaves: Mapping[str, Any]) -> dict[str, Any]:
    wanted = {name: abstract(leaf) for name, leaf in leaves.items()}
    if not wanted:
        return {}
    silence_orbax()
    how = ocp.args.PyTreeRestore(
        item=wanted,
        restore_args=ocp.checkpoint_utils.construct_restore_args(wanted),
        partial_restore=True,
    )
    with ocp.PyTreeCheckpointer() as checkpointer:
        restored: dict[str, Any] = checkpointer.restore(directory.absolute(), args=how)
    return restored


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


def _part(name: str) -> str:
    return name.split(".", 1)[0]


def _of_part(shapes: Mapping[str, str], part: str) -> dict[str, str]:
    return {name: shape for name, shape in shapes.items() if _part(name) == part}

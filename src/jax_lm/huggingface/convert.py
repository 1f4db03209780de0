"""The conversion itself: a family's table applied in either direction."""

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from jax_lm.errors import JaxLMError
from jax_lm.huggingface.mapping import Rule, Table
from jax_lm.huggingface.tensor_files import TensorFiles

FLOAT_DTYPES = ("F64", "F32", "F16", "BF16")
Shapes = Mapping[str, tuple[int, ...]]


def leaves_by_path(tree: Any) -> dict[str, Any]:
    """The arrays of a module by their fields' names joined with dots, in tree order."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def import_leaves(files: TensorFiles, table: Table, shapes: Shapes) -> dict[str, np.ndarray]:
    """Our arrays from their files, float32.

    Args:
        files: where the tensors are.
        table: which tensor is which of our arrays.
        shapes: of our arrays, by path; blocks stacked.

    Raises:
        JaxLMError: tensors are missing, unexpected, of another shape or not floating point; the
            message names all of them.
    """
    stored = _stored_names(files, table)
    _refuse_differences(files, stored, table, _their_shapes(table, shapes))
    _refuse_untied(files, stored, table)
    leaves = {path: np.empty(shape, np.float32) for path, shape in shapes.items()}
    for rule in table.rules:
        for name, index in rule.places(_num_layers(rule, shapes)):
            parts = rule.transform.to_ours(files.read(stored[name]))
            for path, part in zip(rule.our_paths, parts, strict=True):
                leaves[path][index] = part
    return leaves


def export_tensors(leaves: Mapping[str, np.ndarray], table: Table) -> dict[str, np.ndarray]:
    """Their tensors from our arrays, named as transformers writes them."""
    shapes = {path: leaf.shape for path, leaf in leaves.items()}
    tensors = {}
    for rule in table.rules:
        for name, index in rule.places(_num_layers(rule, shapes)):
            theirs = rule.transform.to_theirs(tuple(leaves[path][index] for path in rule.our_paths))
            tensors[table.prefix + name] = np.ascontiguousarray(theirs)
    return tensors


def _num_layers(rule: Rule, shapes: Shapes) -> int:
    return shapes[rule.our_paths[0]][0]


def _their_shapes(table: Table, shapes: Shapes) -> dict[str, tuple[int, ...]]:
    theirs = {}
    for rule in table.rules:
        ours = [shapes[path][1:] if rule.layered else shapes[path] for path in rule.our_paths]
        # The table says how values move; moving zeros (of no size in memory) says how shapes do.
        zeros = tuple(np.broadcast_to(np.float32(0), shape) for shape in ours)
        shape = rule.transform.to_theirs(zeros).shape
        theirs.update({name: shape for name, _ in rule.places(_num_layers(rule, shapes))})
    return theirs


def _stored_names(files: TensorFiles, table: Table) -> dict[str, str]:
    """What each tensor is called in the files, by its name in the table."""
    stored: dict[str, str] = {}
    for name in files.infos:
        short = name.removeprefix(table.prefix)
        if not table.ignored.fullmatch(short):
            # A name there both with and without the prefix is one too many.
            stored[table.prefix + short if short in stored else short] = name
    return stored


def _refuse_differences(
    files: TensorFiles, stored: Mapping[str, str], table: Table, expected: Shapes
) -> None:
    problems = [
        *_list("missing", [table.prefix + name for name in expected if name not in stored]),
        *_list("unexpected", [n for s, n in stored.items() if s not in {*expected, *table.tied}]),
        *_ill_formed(files, stored, {**expected, **_tied_shapes(table, expected)}),
    ]
    if problems:
        raise JaxLMError(
            f"{files.directory}: the weights do not fit the configuration: {'; '.join(problems)}"
        )


def _tied_shapes(table: Table, expected: Shapes) -> dict[str, tuple[int, ...]]:
    return {copy: expected[original] for copy, original in table.tied.items()}


def _ill_formed(files: TensorFiles, stored: Mapping[str, str], expected: Shapes) -> Iterator[str]:
    for short, shape in expected.items():
        if short not in stored:
            continue
        name = stored[short]
        info = files.infos[name]
        if info.shape != shape:
            yield f"{name} has shape {info.shape}, expected {shape}"
        if info.dtype not in FLOAT_DTYPES:
            yield f"{name} has dtype {info.dtype}, expected one of {', '.join(FLOAT_DTYPES)}"


def _list(what: str, names: list[str]) -> list[str]:
    return [f"{what} {', '.join(names)}"] if names else []


def _refuse_untied(files: TensorFiles, stored: Mapping[str, str], table: Table) -> None:
    for copy, original in table.tied.items():
        if copy in stored and not np.array_equal(
            files.read(stored[copy]), files.read(stored[original]), equal_nan=True
        ):
            raise JaxLMError(
                f"{files.directory}: {copy} differs from {original}; only models whose output "
                "matrix is tied to the token embedding are supported"
            )

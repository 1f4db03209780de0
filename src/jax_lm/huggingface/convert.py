"""Import: a family's table applied to the tensors of a directory, one array at a time."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import DTypeLike

from jax_lm.errors import JaxLMError
from jax_lm.huggingface.checks import refuse_differences, refuse_untied, stored_names
from jax_lm.huggingface.copying import aligned_zeros, copy_into
from jax_lm.huggingface.family import HubFamily
from jax_lm.huggingface.mapping import Rule, Table
from jax_lm.huggingface.tensor_files import TensorFiles
from jax_lm.models.registry import abstract_model

Index = tuple[slice, ...]
Shapes = Mapping[str, tuple[int, ...]]
ShardingOf = Callable[[Any], Any]
"""From a model of ``jax.ShapeDtypeStruct`` to the same tree of shardings."""


def leaves_by_path(tree: Any) -> dict[str, Any]:
    """The arrays of a module by their fields' names joined with dots, in tree order."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def read_model(
    files: TensorFiles,
    family: HubFamily,
    config: Any,
    *,
    dtype: DTypeLike = jnp.float32,
    sharding_of: ShardingOf | None = None,
) -> Any:
    """The model of a directory's weights; each array goes to its devices as it is read.

    Args:
        files: where the tensors are.
        family: says which tensor is which of our arrays.
        config: of the model.
        dtype: of the result, whatever is stored.
        sharding_of: where the arrays go; None: the default device.

    Raises:
        JaxLMError: the weights do not fit the configuration; every tensor at fault is named.
    """
    stored = StoredWeights(files, family, config)
    model = abstract_model(config)
    stored.refuse_nonzero(stored.shapes.keys() - leaves_by_path(model).keys())
    shardings = {} if sharding_of is None else leaves_by_path(sharding_of(model))
    leaves = [stored.read(path, dtype, shardings.get(path)) for path in leaves_by_path(model)]
    return jax.tree.unflatten(jax.tree.structure(model), leaves)


class _Source(NamedTuple):
    rule: Rule
    part: int


class StoredWeights:
    """Tensors that fit a family's table, as the arrays of our model."""

    def __init__(self, files: TensorFiles, family: HubFamily, config: Any):
        """Compare names, shapes and dtypes with the table; no weights are read but tied copies.

        Raises:
            JaxLMError: tensors are missing, unexpected, of another shape or not floating point,
                or differ from what they are tied to; the message names all of them.
        """
        kept = leaves_by_path(abstract_model(family.stored_as(config)))
        self.shapes: Shapes = {path: leaf.shape for path, leaf in kept.items()}
        self._files = files
        table = family.table(config)
        self._sources = sources(table)
        self._stored = stored_names(files, table)
        expected = {name: shape for _, name, _, shape in their_tensors(table, self.shapes)}
        refuse_differences(files, self._stored, table, expected)
        refuse_untied(files, self._stored, table)

    def read(
        self, path: str, dtype: DTypeLike, sharding: jax.sharding.Sharding | None = None
    ) -> jax.Array:
        """One array of ours; with a sharding only what this process's devices hold is read."""
        shape = self.shapes[path]
        if sharding is None:
            whole = self._piece(path, tuple(slice(0, size) for size in shape), dtype)
            # On a CPU the array keeps this memory as its own.
            array: jax.Array = jax.device_put(whole, may_alias=True)
            return array
        pieces: dict[tuple[tuple[int, int, int], ...], np.ndarray] = {}

        def piece(index: Index | None) -> np.ndarray:
            assert index is not None
            key = tuple(part.indices(size) for part, size in zip(index, shape, strict=True))
            if key not in pieces:
                pieces[key] = self._piece(path, tuple(slice(*part) for part in key), dtype)
            return pieces[key]

        return jax.make_array_from_callback(shape, sharding, piece)

    def slices(self, path: str) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
        """Views of the stored values of one array of ours: layer by layer, without padding."""
        rule, part = self._sources[path]
        for name, index in rule.places(self.shapes[path][0]):
            if name in self._stored:
                with self._files.view(self._stored[name]) as theirs:
                    yield index, rule.transform.to_ours(theirs)[part]

    def refuse_nonzero(self, paths: Any) -> None:
        """Refuse parameters that the model lacks unless they are zero.

        Raises:
            JaxLMError: some are not; all of them are named.
        """
        nonzero = [
            path for path in sorted(paths) if any(np.any(values) for _, values in self.slices(path))
        ]
        if nonzero:
            raise JaxLMError(
                f"{self._files.where}: config.json says that there are no biases, but these are "
                f"not zero: {', '.join(nonzero)}; mend config.json to keep them"
            )

    def _piece(self, path: str, index: Index, dtype: DTypeLike) -> np.ndarray:
        rule, part = self._sources[path]
        shape = self.shapes[path]
        out = aligned_zeros(tuple(one.stop - one.start for one in index), np.dtype(dtype))
        names = [self._stored.get(name) for name, _ in rule.places(shape[0])]
        if not rule.layered:
            self._fill(out, names[0], rule, part, index)
            return out
        for place, name in enumerate(names[index[0]]):
            self._fill(out[place], name, rule, part, index[1:])
        return out

    def _fill(self, out: np.ndarray, name: str | None, rule: Rule, part: int, index: Index) -> None:
        """Write the part of a tensor that ``index`` selects to the start of ``out``, of zeros.

        A tensor that a file may lack, and does, leaves them.
        """
        if name is None:
            return
        values = out if rule.transform.rows is None else out[: rule.transform.rows]
        whole = values.size == _size(self._files.infos[name].shape) and not any(
            one.start for one in index
        )
        if whole and rule.transform.same_bytes and self._files.read_into(name, values):
            return
        with self._files.view(name) as theirs:
            selected = rule.transform.to_ours(theirs)[part][index]
            copy_into(out[: len(selected)], selected)


def sources(table: Table) -> dict[str, _Source]:
    """Which rule gives each array of ours, and which of its parts that is."""
    return {
        path: _Source(rule, part)
        for rule in table.all_rules
        for part, path in enumerate(rule.our_paths)
    }


def their_tensors(
    table: Table, shapes: Shapes
) -> Iterator[tuple[Rule, str, tuple[int, ...], tuple[int, ...]]]:
    """Each tensor of theirs: its rule, its name, its index in our arrays, its shape."""
    for rule in table.all_rules:
        ours = [shapes[path][1:] if rule.layered else shapes[path] for path in rule.our_paths]
        # The table says how values move; moving zeros (of no size in memory) says how shapes do.
        zeros = tuple(np.broadcast_to(np.float32(0), shape) for shape in ours)
        shape = rule.transform.to_theirs(tuple(part[: rule.transform.rows] for part in zeros)).shape
        for name, index in rule.places(shapes[rule.our_paths[0]][0]):
            yield rule, name, index, shape


def _size(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))

"""Which device holds which part of the parameters, and of what belongs to them."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jax_lm.errors import UsageError, nearest
from jax_lm.models.axes import AxisNames, parameter_axes
from jax_lm.models.layers.placement import (
    PARAMETERS,
    Axis,
    mesh_axes,
    parameter_rules,
    partition,
)
from jax_lm.sharding.mesh import MESH_AXES, MeshConfig

PARAMETER_AXES = (
    *("embed", "heads", "kv_heads", "head_dim", "mlp", "vocab"),
    *("context", "word_embed", "buckets", "types", "low_rank"),
)
"""Axes that a rule may split."""


def rules_of(config: MeshConfig) -> Mapping[str, Axis]:
    """The usual rules with the configured ones in their place.

    Raises:
        UsageError: one is malformed or names no mesh axis.
    """
    rules = dict(PARAMETERS)
    for rule in config.rules:
        name, equals, value = rule.partition("=")
        axes = () if value == "none" else tuple(value.split("+"))
        unknown = [axis for axis in axes if axis not in MESH_AXES]
        if name not in PARAMETER_AXES:
            raise UsageError(
                f"--mesh.rules {rule}: parameters have no axis {name!r}"
                f"{nearest(name, PARAMETER_AXES)}; they are {', '.join(PARAMETER_AXES)}"
            )
        if not equals or unknown:
            raise UsageError(
                f"--mesh.rules {rule}: expected AXIS=none or AXIS=MESH_AXIS[+MESH_AXIS], where a "
                f"mesh axis is one of {', '.join(MESH_AXES)}{nearest(value, MESH_AXES)}"
            )
        rules[name] = axes
    return rules


@contextmanager
def on_mesh(mesh: Mesh, config: MeshConfig) -> Iterator[None]:
    """Compute on a mesh inside, with the rules of its configuration."""
    with parameter_rules(rules_of(config)), jax.set_mesh(mesh):
        yield


def state_shardings(state: Any, model: Any, mesh: Mesh, rules: Mapping[str, Axis]) -> Any:
    """A sharding for every array of a training state.

    Arrays of the optimizer lie where the parameter lies whose path ends theirs; those that lack
    one of its axes, as factored moments do, keep the rest. All others are whole on every device.

    Args:
        state: a tree of arrays or ``jax.ShapeDtypeStruct``.
        model: the model in it, which decides.
        mesh: where arrays lie.
        rules: mesh axes by the names of parameters' axes.

    Raises:
        UsageError: an axis of a parameter does not divide by the devices that would split it.
    """
    shape = dict(mesh.shape)
    known = {}
    for path, (leaf, axes) in _parameters(model).items():
        _check_divides(path, axes, leaf.shape, rules, shape)
        known[path] = leaf.shape, partition(axes, leaf.shape, rules, shape)

    def sharding(path: tuple[Any, ...], leaf: Any) -> NamedSharding:
        for start in range(len(path)):
            found = known.get(jax.tree_util.keystr(path[start:], simple=True, separator="."))
            if found is not None:
                return NamedSharding(mesh, _fitted(leaf.shape, *found))
        return NamedSharding(mesh, PartitionSpec())

    return jax.tree_util.tree_map_with_path(sharding, state)


def _parameters(model: Any) -> dict[str, tuple[Any, tuple[str, ...]]]:
    """Every parameter and the names of its axes, by path."""
    flat = jax.tree_util.tree_leaves_with_path(model)
    named = parameter_axes(model)
    names = jax.tree.leaves(named, is_leaf=lambda leaf: isinstance(leaf, AxisNames))
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): (leaf, tuple(axes))
        for (path, leaf), axes in zip(flat, names, strict=True)
    }


def _fitted(
    shape: tuple[int, ...], parameter: tuple[int, ...], spec: PartitionSpec
) -> PartitionSpec:
    """The parameter's own spec, without the axis that a factored moment lacks."""
    if shape == parameter:
        return spec
    for axis in reversed(range(len(parameter))):
        if parameter[:axis] + parameter[axis + 1 :] == shape:
            return PartitionSpec(*spec[:axis], *spec[axis + 1 :])
    return PartitionSpec()


def _check_divides(
    path: str,
    axes: tuple[str, ...],
    shape: tuple[int, ...],
    rules: Mapping[str, Axis],
    mesh: Mapping[str, int],
) -> None:
    used: set[str] = set()
    for name, size in zip(axes, shape, strict=True):
        free = [one for one in mesh_axes(rules.get(name)) if one not in used and mesh[one] > 1]
        used.update(free)
        if size % math.prod(mesh[axis] for axis in free):
            flags = " x ".join(f"--mesh.{axis} {mesh[axis]}" for axis in free)
            raise UsageError(
                f"{flags} does not divide {name}, which is {size} in {path}: choose another "
                f"number, or keep that axis whole with --mesh.rules {name}=none"
            )

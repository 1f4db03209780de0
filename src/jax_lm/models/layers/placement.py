"""Where activations and a block's parameters lie, by the names of their axes.

Models know no mesh: they say which axes an array has, and where a mesh is set (`jax.set_mesh`) the
compiler is told how to split them. Without one, or on one device, nothing happens.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar, cast

import equinox as eqx
import jax
from jax.sharding import PartitionSpec
from jaxtyping import Array

Axis = str | tuple[str, ...] | None
Module = TypeVar("Module")

ACTIVATIONS: Mapping[str, Axis] = {
    "batch": ("data", "fsdp"),
    "tokens": ("sequence", "data", "fsdp"),
    "seq": "sequence",
    "heads": "tensor",
    "kv_heads": "tensor",
    "mlp": "tensor",
    "vocab": "tensor",
}
"""Mesh axes that split an axis of activations; the rest is whole on every device."""

PARAMETERS: Mapping[str, Axis] = {
    "embed": "fsdp",
    "heads": "tensor",
    "kv_heads": "tensor",
    "mlp": "tensor",
    "vocab": "tensor",
}
"""Mesh axes that split an axis of parameters, unless a run has rules of its own."""

_rules: ContextVar[Mapping[str, Axis]] = ContextVar("rules", default=PARAMETERS)


@contextmanager
def parameter_rules(rules: Mapping[str, Axis]) -> Iterator[None]:
    """Split parameters by these rules inside."""
    token = _rules.set(rules)
    try:
        yield
    finally:
        _rules.reset(token)


def placed(x: Array, axes: str) -> Array:
    """``x`` split as the names of its axes say, where a mesh is set.

    Args:
        x: an activation.
        axes: a name for each axis, as in ``"batch seq embed"``.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or mesh.size == 1:
        return x
    spec = partition(axes.split(), x.shape, ACTIVATIONS, dict(mesh.shape))
    constrained: Array = jax.lax.with_sharding_constraint(x, spec)
    return constrained


def mesh_axes(rule: Axis) -> tuple[str, ...]:
    """The mesh axes that a rule names."""
    return (rule,) if isinstance(rule, str) else rule or ()


def num_parts(axis: str, size: int) -> int:
    """Parts that an axis of activations lies in; 1 where no mesh is set or they do not divide it.

    Args:
        axis: its name, as in ``"tokens"``.
        size: of the axis.
    """
    mesh = dict(jax.sharding.get_abstract_mesh().shape)
    parts = math.prod(mesh.get(name, 1) for name in mesh_axes(ACTIVATIONS[axis]))
    return parts if size % parts == 0 else 1


def placed_parameters(module: Module) -> Module:
    """Parameters, or gradients of them, each in its shards, where a mesh is set.

    Said of each block inside the scan over blocks, so that the compiler gathers the parameters of
    one block at a time and never those of the stack.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or mesh.size == 1:
        return module
    from jax_lm.models.axes import AxisNames, parameter_axes

    leaves, structure = jax.tree.flatten(module)
    named: Any = parameter_axes(cast(eqx.Module, module))
    names = jax.tree.leaves(named, is_leaf=lambda leaf: isinstance(leaf, AxisNames))
    shape = dict(mesh.shape)
    kept = [
        jax.lax.with_sharding_constraint(leaf, partition(axes, leaf.shape, _rules.get(), shape))
        for leaf, axes in zip(leaves, names, strict=True)
    ]
    placed_module: Module = jax.tree.unflatten(structure, kept)
    return placed_module


def partition(
    axes: list[str] | tuple[str, ...],
    shape: tuple[int, ...],
    rules: Mapping[str, Axis],
    mesh: Mapping[str, int],
) -> PartitionSpec:
    """How an array with these axes is split: by the rules, where sizes divide.

    A mesh axis splits one axis only: the first that asks for it.
    """
    used: set[str] = set()
    spec: list[Axis] = []
    for name, size in zip(axes, shape, strict=True):
        wanted = mesh_axes(rules.get(name))
        free = tuple(axis for axis in wanted if axis not in used and mesh.get(axis, 1) > 1)
        if free and size % math.prod(mesh[axis] for axis in free) == 0:
            used.update(free)
            spec.append(free[0] if len(free) == 1 else free)
        else:
            spec.append(None)
    return PartitionSpec(*spec)

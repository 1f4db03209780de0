"""Where arrays live: batches split over the devices, parameters named by their axes.

A parameter declared ``weight: Float[Array, "embed mlp"]`` has the axes ``("embed", "mlp")``, with
``layers`` before them in a stack of blocks. Parameters are replicated over the ``data`` axis.
"""

import dataclasses
from typing import Any, get_args, get_type_hints

import equinox as eqx
import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from jax_lm.errors import JaxLMError

DATA_AXIS = "data"


def make_mesh() -> Mesh:
    """All devices on one ``data`` axis.

    Axes are Auto: `jax.make_mesh` makes Explicit ones by default, under which plain einsums ask
    for shardings of their own.
    """
    return jax.make_mesh((jax.device_count(),), (DATA_AXIS,), axis_types=(AxisType.Auto,))


def parameter_axes(module: eqx.Module, prefix: tuple[str, ...] = ()) -> Any:
    """The axis names of every parameter, as a tree shaped like ``module`` with tuples as leaves.

    Raises:
        JaxLMError: an array field whose annotation names no axes.
    """
    hints = get_type_hints(type(module))
    axes = {}
    for field in dataclasses.fields(module):
        value = getattr(module, field.name)
        if field.metadata.get("static", False) or value is None:
            continue
        path = f"{type(module).__name__}.{field.name}"
        if isinstance(value, eqx.Module):
            stacked = (*prefix, "layers") if field.name == "blocks" else prefix
            axes[field.name] = parameter_axes(value, stacked)
        else:
            axes[field.name] = AxisNames((*prefix, *_annotated(hints[field.name], path)))
    return eqx.tree_at(
        lambda m: [getattr(m, name) for name in axes],
        module,
        list(axes.values()),
    )


class AxisNames(tuple[str, ...]):
    """Axis names as one leaf of a tree (a plain tuple would be a subtree)."""


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """Rows of a batch split over the ``data`` axis."""
    return NamedSharding(mesh, PartitionSpec(DATA_AXIS))


def replicated(mesh: Mesh) -> NamedSharding:
    """The whole array on every device."""
    return NamedSharding(mesh, PartitionSpec())


def put_batch(batch: Any, sharding: NamedSharding) -> Any:
    """This host's rows of a batch as global arrays."""

    def put(array: np.ndarray) -> jax.Array:
        global_array: jax.Array = jax.make_array_from_process_local_data(sharding, array)
        return global_array

    return jax.tree.map(put, batch)


def _annotated(annotation: Any, path: str) -> tuple[str, ...]:
    for option in (annotation, *get_args(annotation)):
        names = getattr(option, "dim_str", None)
        if names is not None:
            return tuple(names.split())
    raise JaxLMError(f"{path} has no axis names: annotate it like Float[Array, 'embed mlp']")

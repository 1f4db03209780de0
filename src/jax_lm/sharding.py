"""Where arrays live: batches split over the devices, parameters on all of them."""

from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

DATA_AXIS = "data"


def make_mesh() -> Mesh:
    """All devices on one ``data`` axis.

    Axes are Auto: `jax.make_mesh` makes Explicit ones by default, under which plain einsums ask
    for shardings of their own.
    """
    return jax.make_mesh((jax.device_count(),), (DATA_AXIS,), axis_types=(AxisType.Auto,))


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

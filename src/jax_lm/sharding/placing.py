"""Batches on the mesh."""

from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jax_lm.sharding.mesh import DATA, FSDP


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """Rows of a batch split over the ``data`` and ``fsdp`` axes."""
    return NamedSharding(mesh, PartitionSpec((DATA, FSDP)))


def replicated(mesh: Mesh) -> NamedSharding:
    """The whole array on every device."""
    return NamedSharding(mesh, PartitionSpec())


def put_batch(batch: Any, sharding: NamedSharding) -> Any:
    """This host's rows of a batch as global arrays."""

    def put(array: np.ndarray) -> jax.Array:
        global_array: jax.Array = jax.make_array_from_process_local_data(sharding, array)
        return global_array

    return jax.tree.map(put, batch)

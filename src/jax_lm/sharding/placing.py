"""Batches on the mesh, and arrays back from it."""

from typing import TypeVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Int

from jax_lm.sharding.mesh import DATA, FSDP

Tree = TypeVar("Tree")


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """Rows of a batch split over the ``data`` and ``fsdp`` axes."""
    return NamedSharding(mesh, PartitionSpec((DATA, FSDP)))


def replicated(mesh: Mesh) -> NamedSharding:
    """The whole array on every device."""
    return NamedSharding(mesh, PartitionSpec())


def own_rows(sharding: NamedSharding, batch_size: int) -> Int[np.ndarray, "rows"]:
    """Numbers, within a batch, of the rows that this process's devices hold, in order.

    Processes whose devices split heads or features between them hold the same rows.
    """
    parts = sharding.addressable_devices_indices_map((batch_size,)).values()
    ranges = {
        (0, batch_size) if part is None else part[0].indices(batch_size)[:2] for part in parts
    }
    rows = [np.arange(start, stop, dtype=np.int64) for start, stop in sorted(ranges)]
    return np.concatenate(rows)


def put_batch(batch: Tree, sharding: NamedSharding, batch_size: int | None = None) -> Tree:
    """A batch as global arrays.

    Args:
        batch: NumPy arrays of all rows, or of those that ``own_rows`` names.
        sharding: as ``batch_sharding`` gives it.
        batch_size: rows over all processes; None: all of them are given.
    """

    def put(array: np.ndarray) -> jax.Array:
        global_array: jax.Array
        if sharding.is_fully_addressable:
            global_array = jax.make_array_from_process_local_data(sharding, array)
            return global_array
        size = batch_size or len(array)
        first = np.arange(size) if len(array) == size else own_rows(sharding, size)

        def part(index: tuple[slice, ...] | None) -> np.ndarray:
            assert index is not None
            start, stop, _ = index[0].indices(size)
            here = np.searchsorted(first, start)
            return array[here : here + stop - start]

        global_array = jax.make_array_from_callback((size, *array.shape[1:]), sharding, part)
        return global_array

    placed: Tree = jax.tree.map(put, batch)
    return placed


def gathered(tree: Tree, mesh: Mesh, *, keep: bool) -> Tree:
    """Arrays from the devices of all processes, as NumPy arrays; all processes must call it.

    Stacked arrays come layer by layer: no device holds more than its shards and one such piece.
    One process gets what it gives.

    Args:
        tree: arrays on the mesh.
        mesh: that of all devices.
        keep: whether this process wants them; the others take part, and get zeros of no size.
    """
    if jax.process_count() == 1:
        return tree
    whole = jax.jit(lambda array: array, out_shardings=replicated(mesh))
    layer = jax.jit(lambda array, index: array[index], out_shardings=replicated(mesh))

    def gather(leaf: jax.Array) -> np.ndarray:
        if not keep:
            found = np.broadcast_to(np.zeros((), leaf.dtype), leaf.shape)
        else:
            found = np.empty(leaf.shape, leaf.dtype)
        stacked = leaf.ndim > 2
        for index in range(leaf.shape[0]) if stacked else (0,):
            piece = layer(leaf, index) if stacked else whole(leaf)
            if keep:
                found[index if stacked else ...] = np.asarray(piece)
        return found

    arrays: Tree = jax.tree.map(gather, tree)
    return arrays

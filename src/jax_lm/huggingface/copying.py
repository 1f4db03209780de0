"""Memory for weights, and copies into it that are quick also where axes change places."""

import itertools
import mmap

import numpy as np

TILE = 256
"""Values along each of two axes that a transposed copy moves at once: they fit in the cache, which
makes it two to three times as fast."""


def aligned_zeros(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Zeros on pages of their own.

    JAX takes memory with that alignment as an array's own on a CPU, instead of copying it. NumPy
    would ask for huge pages, which a virtual machine may have to find first: reading was three
    times as slow with them on one, so the system's own policy decides.
    """
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    pages = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(pages, np.uint8, size).view(dtype).reshape(shape)


def copy_into(out: np.ndarray, values: np.ndarray) -> None:
    """``out[...] = values``, whatever the dtypes."""
    last = values.ndim - 1
    neighbours = min(range(values.ndim), key=lambda axis: (abs(values.strides[axis]), -axis))
    if neighbours == last:
        out[...] = values
        return
    steps = [TILE if axis in (neighbours, last) else 1 for axis in range(values.ndim)]
    starts = [range(0, size, step) for size, step in zip(values.shape, steps, strict=True)]
    for corner in itertools.product(*starts):
        tile = tuple(slice(i, i + step) for i, step in zip(corner, steps, strict=True))
        out[tile] = values[tile]

"""Feature rows as memory-mapped arrays, decoded once from Parquet.

Compressed Parquet cannot be read by row; a flat array can, so the columns that training needs
are decoded on first use into ``_NAME.rows/``, which is bound to the manifest's checksums and
made again when it is missing or stale.
"""

import hashlib
import json
import mmap
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
from jaxtyping import Int

from jax_lm.loading.decoding import INDEX, decode, stored_key
from jax_lm.preprocessing.features import open_features
from jax_lm.preprocessing.manifest import Manifest, beside
from jax_lm.preprocessing.remote_features import local_features
from jax_lm.types import Rows

LAYOUT_VERSION = 3


class RowSource(Protocol):
    """Feature rows by index; what training reads."""

    @property
    def fingerprint(self) -> str:
        """Hex digest of the rows."""
        ...

    def __len__(self) -> int:
        """Number of rows."""
        ...

    def take(self, indices: Int[np.ndarray, "batch"]) -> Rows:
        """The rows at ``indices``, copied into memory."""
        ...


class RowStore:
    """The rows of a feature set, read by index from memory-mapped arrays."""

    def __init__(self, directory: Path, manifest: Manifest) -> None:
        """Open the arrays of a directory that ``open_rows`` has made."""
        self.manifest = manifest
        index = json.loads((directory / INDEX).read_text())
        self._arrays = {name: _mapped(directory / f"{name}.npy") for name in index["arrays"]}
        self.subsets: Sequence[str] = index["subsets"]
        self.fingerprint: str = index["key"]

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._arrays["lengths"])

    def take(self, indices: Int[np.ndarray, "batch"]) -> Rows:
        """The rows at ``indices``, copied into memory."""
        return Rows(**{name: self._arrays[name][indices] for name in self._row_arrays})

    def num_bytes(self, indices: Int[np.ndarray, "batch"]) -> Int[np.ndarray, "batch"]:
        """UTF-8 bytes that the scored targets of each row spell."""
        return np.asarray(self._arrays["num_bytes"][indices])

    def subset_ids(self, indices: Int[np.ndarray, "batch"]) -> Int[np.ndarray, "batch"]:
        """Index into ``subsets`` of each row."""
        return np.asarray(self._arrays["subset_ids"][indices])

    @property
    def disk_bytes(self) -> int:
        """Size of the arrays."""
        return sum(array.nbytes for array in self._arrays.values())

    @cached_property
    def _row_arrays(self) -> list[str]:
        return [name for name in Rows._fields if name in self._arrays]


def open_rows(prefix: str, say: Callable[[str], None] = print) -> RowStore:
    """Open a feature set's rows, decoding them first where that has not been done.

    A set on an object store is brought into the user's cache directory first.

    Raises:
        JaxLMError: the set is missing, incomplete or damaged.
    """
    prefix = local_features(prefix, say)
    manifest = open_features(prefix)
    directory = beside(prefix, "rows")
    key = _key(manifest)
    if stored_key(directory) != key:
        decode(prefix, manifest, directory, key)
        store = RowStore(directory, manifest)
        say(f"decoded {len(store):,} rows of {prefix} ({store.disk_bytes / 1e6:,.1f} MB mapped)")
        return store
    return RowStore(directory, manifest)


def _key(manifest: Manifest) -> str:
    files = [(entry.name, entry.sha256) for entry in manifest.files]
    parts = [LAYOUT_VERSION, manifest.tokenizer_fingerprint, files]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _mapped(path: Path) -> np.ndarray:
    array: np.ndarray = np.load(path, mmap_mode="r")
    # Rows are read in random order: the kernel's read-ahead would fetch far more than is used.
    underlying = getattr(array, "_mmap", None)
    if underlying is not None and hasattr(mmap, "MADV_RANDOM"):
        underlying.madvise(mmap.MADV_RANDOM)
    return array

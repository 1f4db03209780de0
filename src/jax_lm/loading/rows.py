"""Feature rows as memory-mapped arrays, decoded once from Parquet.

Compressed Parquet cannot be read by row; a flat array can, so the columns that training needs
are decoded on first use into ``_NAME.rows/``, which is bound to the manifest's checksums and
made again when it is missing or stale.
"""

import hashlib
import json
import mmap
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Int
from numpy.lib.format import open_memmap

from jax_lm.preprocessing.features import matrix, open_features, row_groups
from jax_lm.preprocessing.manifest import Manifest, beside
from jax_lm.types import Rows

LAYOUT_VERSION = 2
_ROW_COLUMNS = ("input_ids", "labels", "loss_weights")


class RowStore:
    """The rows of a feature set, read by index from memory-mapped arrays."""

    def __init__(self, directory: Path, manifest: Manifest) -> None:
        """Open the arrays of a directory that ``open_rows`` has made."""
        self.manifest = manifest
        self._arrays = {path.stem: _mapped(path) for path in sorted(directory.glob("*.npy"))}
        index = json.loads((directory / "index.json").read_text())
        self.subsets: list[str] = index["subsets"]
        self.fingerprint: str = index["key"]

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._arrays["lengths"])

    def take(self, indices: Int[np.ndarray, "batch"]) -> Rows:
        """The rows at ``indices``, copied into memory."""
        taken = {name: array[indices] for name, array in self._arrays.items()}
        return Rows(
            taken["input_ids"], taken["lengths"], taken.get("labels"), taken.get("loss_weights")
        )

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


def open_rows(prefix: str, say: Callable[[str], None] = print) -> RowStore:
    """Open a feature set's rows, decoding them first where that has not been done.

    Raises:
        JaxLMError: the set is missing, incomplete or damaged.
    """
    manifest = open_features(prefix)
    directory = beside(prefix, "rows")
    key = _key(manifest)
    if _stored_key(directory) != key:
        _decode(prefix, manifest, directory, key)
        store = RowStore(directory, manifest)
        say(f"decoded {len(store):,} rows of {prefix} ({store.disk_bytes / 1e6:,.1f} MB mapped)")
        return store
    return RowStore(directory, manifest)


def _key(manifest: Manifest) -> str:
    files = [(entry.name, entry.sha256) for entry in manifest.files]
    parts = [LAYOUT_VERSION, manifest.tokenizer_fingerprint, files]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _stored_key(directory: Path) -> str | None:
    try:
        index = json.loads((directory / "index.json").read_text())
        whole = all((directory / f"{name}.npy").is_file() for name in index["arrays"])
        return str(index["key"]) if whole else None
    except (OSError, ValueError, KeyError):
        return None


def _decode(prefix: str, manifest: Manifest, directory: Path, key: str) -> None:
    temporary = directory.with_name(f"{directory.name}.tmp-{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        subsets = _write_arrays(Path(prefix).parent, manifest, temporary)
        (temporary / "index.json").write_text(
            json.dumps({"key": key, "subsets": subsets, "arrays": list(_shapes(manifest))})
        )
        shutil.rmtree(directory, ignore_errors=True)
        temporary.rename(directory)
    except OSError:
        if _stored_key(directory) != key:  # else another process has just made the same arrays
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_arrays(folder: Path, manifest: Manifest, output: Path) -> list[str]:
    arrays = _allocate(manifest, output)
    subsets: dict[str, int] = {}
    start = 0
    for entry in manifest.files:
        for table in row_groups(folder / entry.name):
            rows = slice(start, start + table.num_rows)
            _fill(arrays, rows, table, manifest.row_length, subsets)
            start = rows.stop
    for array in arrays.values():
        array.flush()
    return list(subsets)


def _shapes(manifest: Manifest) -> dict[str, tuple[type, tuple[int, ...]]]:
    """Type and shape of each array."""
    rows, width = manifest.totals.rows, manifest.row_length
    id_type = np.uint16 if manifest.vocab_size <= 1 << 16 else np.int32
    shapes: dict[str, tuple[type, tuple[int, ...]]] = {
        "input_ids": (id_type, (rows, width)),
        "lengths": (np.int32, (rows,)),
        "num_bytes": (np.int32, (rows,)),
        "subset_ids": (np.int32, (rows,)),
    }
    if "labels" in manifest.columns:
        shapes["labels"] = (np.int32, (rows, width))
    if "loss_weights" in manifest.columns:
        shapes["loss_weights"] = (np.float32, (rows, width))
    return shapes


def _allocate(manifest: Manifest, output: Path) -> dict[str, np.memmap[Any, Any]]:
    return {
        name: open_memmap(output / f"{name}.npy", mode="w+", dtype=dtype, shape=shape)
        for name, (dtype, shape) in _shapes(manifest).items()
    }


def _fill(
    arrays: dict[str, np.memmap[Any, Any]],
    rows: slice,
    table: pa.Table,
    width: int,
    subsets: dict[str, int],
) -> None:
    for name in _ROW_COLUMNS:
        if name in arrays:
            arrays[name][rows] = matrix(table.column(name), width)
    arrays["lengths"][rows] = matrix(table.column("attention_mask"), width).sum(axis=1)
    arrays["num_bytes"][rows] = table.column("num_bytes").to_numpy()
    names = table.column("subset").to_pylist()
    arrays["subset_ids"][rows] = [subsets.setdefault(name, len(subsets)) for name in names]


def _mapped(path: Path) -> np.ndarray:
    array: np.ndarray = np.load(path, mmap_mode="r")
    # Rows are read in random order: the kernel's read-ahead would fetch far more than is used.
    underlying = getattr(array, "_mmap", None)
    if underlying is not None and hasattr(mmap, "MADV_RANDOM"):
        underlying.madvise(mmap.MADV_RANDOM)
    return array

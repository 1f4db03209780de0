"""Parquet features -> flat arrays on disk, once, so that rows can be read in any order."""

import json
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.lib.format import open_memmap

from jax_lm.errors import JaxLMError
from jax_lm.files.atomic import file_sha256
from jax_lm.preprocessing.features import matrix, row_groups
from jax_lm.preprocessing.manifest import Manifest

INDEX = "index.json"
SMALL_VOCABULARY = 1 << 16
LENGTHS = {"attention_mask": "lengths", "target_mask": "target_lengths"}
"""Masks are ones and then zeros, so a number says all."""

Shapes = dict[str, tuple[Any, tuple[int, ...]]]


def stored_key(directory: Path) -> str | None:
    """What the arrays of a directory were made from; None where they are not whole."""
    try:
        index = json.loads((directory / INDEX).read_text())
        whole = all((directory / f"{name}.npy").is_file() for name in index["arrays"])
        return str(index["key"]) if whole else None
    except (OSError, ValueError, KeyError):
        return None


def decode(prefix: str, manifest: Manifest, directory: Path, key: str) -> None:
    """Write the arrays of a set; the directory appears whole, whoever else makes it too.

    Raises:
        JaxLMError: a file of the set is damaged.
    """
    _refuse_damage(prefix, manifest)
    temporary = directory.with_name(f"{directory.name}.tmp-{secrets.token_hex(4)}")
    temporary.mkdir()
    try:
        shapes = _shapes(prefix, manifest)
        subsets = _write_arrays(prefix, manifest, shapes, temporary)
        index = {"key": key, "subsets": subsets, "arrays": list(shapes)}
        (temporary / INDEX).write_text(json.dumps(index))
        if stored_key(directory) != key:  # another process may read what it has just made
            shutil.rmtree(directory, ignore_errors=True)
            temporary.rename(directory)
    except OSError:
        if stored_key(directory) != key:  # else another process has just made the same arrays
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _shapes(prefix: str, manifest: Manifest) -> Shapes:
    """Type and shape of each array."""
    rows, width = manifest.totals.rows, manifest.row_length
    id_type = np.uint16 if manifest.vocab_size <= SMALL_VOCABULARY else np.int32
    known: Mapping[str, tuple[Any, tuple[int, ...]]] = {
        "input_ids": (id_type, (rows, width)),
        "labels": (np.int32, (rows, width)),
        "loss_weights": (np.float32, (rows, width)),
        "segment_ids": (np.int16, (rows, width)),
        "target_ids": (id_type, (rows, manifest.target_row_length or 0)),
    }
    shapes = {name: known[name] for name in known if name in manifest.columns}
    for mask, name in LENGTHS.items():
        if mask in manifest.columns:
            shapes[name] = (np.int32, (rows,))
    if "sentence_ends" in manifest.columns:
        shapes["sentence_ends"] = (np.int32, (rows, _most_sentences(prefix, manifest)))
    return {**shapes, "num_bytes": (np.int32, (rows,)), "subset_ids": (np.int32, (rows,))}


def _tables(prefix: str, manifest: Manifest) -> Iterator[pa.Table]:
    for entry in manifest.files:
        yield from row_groups(Path(prefix).parent / entry.name)


def _refuse_damage(prefix: str, manifest: Manifest) -> None:
    for entry in manifest.files:
        path = Path(prefix).parent / entry.name
        if file_sha256(path) != entry.sha256:
            raise JaxLMError(
                f"{path}: damaged, its sha256 is not the manifest's: preprocess again with "
                "--overwrite"
            )


def _most_sentences(prefix: str, manifest: Manifest) -> int:
    lengths = (table["sentence_ends"].combine_chunks() for table in _tables(prefix, manifest))
    return max((int(np.max(found.value_lengths(), initial=0)) for found in lengths), default=0)


def _write_arrays(prefix: str, manifest: Manifest, shapes: Shapes, output: Path) -> list[str]:
    arrays = {
        name: open_memmap(output / f"{name}.npy", mode="w+", dtype=dtype, shape=shape)
        for name, (dtype, shape) in shapes.items()
    }
    subsets: dict[str, int] = {}
    start = 0
    for table in _tables(prefix, manifest):
        rows = slice(start, start + table.num_rows)
        _fill(arrays, rows, table, subsets)
        start = rows.stop
    for array in arrays.values():
        array.flush()
    return list(subsets)


def _fill(arrays: Mapping[str, Any], rows: slice, table: pa.Table, subsets: dict[str, int]) -> None:
    for name in ("input_ids", "labels", "loss_weights", "segment_ids", "target_ids"):
        if name in arrays:
            arrays[name][rows] = matrix(table.column(name), arrays[name].shape[1])
    for mask, name in LENGTHS.items():
        if name in arrays:
            ids = arrays["input_ids" if name == "lengths" else "target_ids"]
            arrays[name][rows] = matrix(table.column(mask), ids.shape[1]).sum(axis=1)
    if "sentence_ends" in arrays:
        arrays["sentence_ends"][rows] = _filled_up(table, arrays["sentence_ends"].shape[1])
    arrays["num_bytes"][rows] = table.column("num_bytes").to_numpy()
    names = table.column("subset").combine_chunks()
    numbers = [subsets.setdefault(name, len(subsets)) for name in names.dictionary.to_pylist()]
    arrays["subset_ids"][rows] = np.array(numbers, np.int32)[np.asarray(names.indices)]


def _filled_up(table: pa.Table, width: int) -> np.ndarray:
    lists = table.column("sentence_ends").combine_chunks()
    lengths = np.asarray(lists.value_lengths())
    filled = np.full((len(lists), width), -1, np.int32)
    filled[np.arange(width) < lengths[:, None]] = np.asarray(lists.flatten())
    return filled

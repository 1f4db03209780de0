"""Feature rows as Parquet: the schema, and one file's writing and reading."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jax_lm.errors import JaxLMError
from jax_lm.preprocessing.manifest import FileEntry, Manifest, feature_files, read_manifest
from jax_lm.preprocessing.transforms import PackedRows

COLUMN_TYPES = {
    "input_ids": pa.list_(pa.int32()),
    "attention_mask": pa.list_(pa.int8()),
    "labels": pa.list_(pa.int32()),
    "loss_weights": pa.list_(pa.float32()),
    "num_bytes": pa.int32(),
    "subset": pa.dictionary(pa.int32(), pa.string()),
}
OPTIONAL_COLUMNS = {"shift": (), "labels": ("labels",), "weights": ("labels", "loss_weights")}
ROW_GROUP_ROWS = 16_384
ROW_GROUP_IDS = 4_194_304


def schema_of(kind: str) -> pa.Schema:
    """The columns of a set whose targets are of this kind."""
    optional = {"labels", "loss_weights"} - set(OPTIONAL_COLUMNS[kind])
    return pa.schema([item for item in COLUMN_TYPES.items() if item[0] not in optional])


def column_names(kind: str) -> dict[str, str]:
    """Name and type of each column, as the manifest says them."""
    schema = schema_of(kind)
    return {name: _type_name(schema.field(name).type) for name in schema.names}


def _type_name(kind: pa.DataType) -> str:
    if pa.types.is_dictionary(kind):
        return f"dictionary<{kind.value_type}>"
    if pa.types.is_list(kind):
        return f"list<{_type_name(kind.value_type)}>"
    return "float32" if pa.types.is_float32(kind) else str(kind)


def write_features(path: Path, parts: Sequence[PackedRows], kind: str) -> None:
    """Write the rows of one shard; the same rows give the same bytes."""
    subsets = pa.array([part.subset for part in parts], pa.string())
    tables = [_table(part, kind, index, subsets) for index, part in enumerate(parts)]
    width = parts[0].rows.input_ids.shape[1]
    pq.write_table(
        pa.concat_tables(tables),
        path,
        row_group_size=max(1, min(ROW_GROUP_ROWS, ROW_GROUP_IDS // width)),
        compression="zstd",
        compression_level=1,
        # measured on ids: smaller and twice as fast as dictionary or plain pages under zstd
        use_dictionary=["subset", "attention_mask.list.element"],
        column_encoding={
            f"{name}.list.element": "BYTE_STREAM_SPLIT"
            for name in ("input_ids", *OPTIONAL_COLUMNS[kind])
        },
    )


def _table(part: PackedRows, kind: str, subset: int, subsets: pa.Array) -> pa.Table:
    ids = part.rows.input_ids
    mask = np.arange(ids.shape[1]) < part.rows.lengths[:, None]
    columns = {
        "input_ids": _lists(ids),
        "attention_mask": _lists(mask.astype(np.int8)),
        "labels": None if part.rows.labels is None else _lists(part.rows.labels),
        "loss_weights": None if part.rows.loss_weights is None else _lists(part.rows.loss_weights),
        "num_bytes": pa.array(part.num_bytes),
        "subset": pa.DictionaryArray.from_arrays(np.full(len(ids), subset, np.int32), subsets),
    }
    schema = schema_of(kind)
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _lists(values: np.ndarray) -> pa.Array:
    rows, width = values.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(width)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values.reshape(-1)))


def matrix(column: pa.ChunkedArray, width: int) -> np.ndarray:
    """A list column as a ``[rows, width]`` array.

    Raises:
        ValueError: a row has another length, or holds a null.
    """
    lists = column.combine_chunks()
    values = lists.flatten()
    lengths = np.asarray(lists.value_lengths())
    if lists.null_count or values.null_count or (lengths != width).any():
        raise ValueError(f"a row is not of length {width}")
    return np.asarray(values).reshape(len(lists), width)


def row_groups(path: Path) -> Iterator[pa.Table]:
    """The row groups of one file, one at a time."""
    with pq.ParquetFile(path) as file:
        for index in range(file.num_row_groups):
            yield file.read_row_group(index)


def open_features(prefix: str) -> Manifest:
    """Read a set's manifest and check that its files are there, whole and alone.

    Raises:
        JaxLMError: a file is missing, extra, unreadable, or has another number of rows.
    """
    manifest = read_manifest(prefix)
    named = {entry.name for entry in manifest.files}
    found = {path.name for path in feature_files(prefix)}
    if missing := sorted(named - found):
        raise _damaged(prefix, f"{', '.join(missing)} missing")
    if extra := sorted(found - named):
        raise _damaged(prefix, f"{', '.join(extra)} not in the manifest: move it away")
    for entry in manifest.files:
        if problem := _footer_problem(Path(prefix).parent / entry.name, entry, manifest):
            raise _damaged(prefix, f"{entry.name} {problem}")
    return manifest


def _footer_problem(path: Path, entry: FileEntry, manifest: Manifest) -> str | None:
    try:
        footer = pq.read_metadata(path)
    except (pa.ArrowException, OSError):
        return "is not a readable Parquet file"
    if footer.num_rows != entry.rows:
        return f"holds {footer.num_rows} rows, expected {entry.rows}"
    if footer.schema.to_arrow_schema().names != list(manifest.columns):
        return f"has other columns than {', '.join(manifest.columns)}"
    return None


def _damaged(prefix: str, problem: str) -> JaxLMError:
    return JaxLMError(
        f"the features at {prefix} are damaged: {problem} (or preprocess again with --overwrite)"
    )


def read_row(prefix: str, manifest: Manifest, index: int) -> dict[str, Any]:
    """One row of a set as ``{column: value}``; list columns become arrays.

    Raises:
        JaxLMError: there is no such row.
    """
    total = manifest.totals.rows
    if not 0 <= index < total:
        raise JaxLMError(f"{prefix} has rows 0 to {total - 1}, there is no row {index}")
    for entry in manifest.files:
        if index < entry.rows:
            break
        index -= entry.rows
    for table in row_groups(Path(prefix).parent / entry.name):
        if index < len(table):
            row = table.slice(index, 1).to_pylist()[0]
            return {key: np.array(v) if isinstance(v, list) else v for key, v in row.items()}
        index -= len(table)
    raise JaxLMError(f"{entry.name} has fewer rows than its manifest says: see features verify")

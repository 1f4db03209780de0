"""Every byte of a feature set, checked against its manifest."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jax_lm.preprocessing.atomic import file_sha256
from jax_lm.preprocessing.cutting.base import IGNORED_LABEL
from jax_lm.preprocessing.features import matrix, row_groups, schema_of
from jax_lm.preprocessing.manifest import FileEntry, Manifest, feature_files, read_manifest


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What a check of a set found."""

    files: int
    rows: int
    problems: tuple[str, ...]
    """One line for each thing that is wrong, beginning with the file's name."""


def verify_features(prefix: str) -> Verification:
    """Check every file's sha256, schema, ids, padding and counts.

    Raises:
        JaxLMError: the manifest is missing or cannot be read.
    """
    manifest = read_manifest(prefix)
    parent = Path(prefix).parent
    found = {path.name for path in feature_files(prefix)}
    problems = []
    for entry in manifest.files:
        problem = "missing"
        if entry.name in found:
            problem = _file_problem(parent / entry.name, entry, manifest)
        if problem:
            problems.append(f"{entry.name}: {problem}")
    extra = sorted(found - {entry.name for entry in manifest.files})
    problems += [f"{name}: not in the manifest" for name in extra]
    return Verification(
        files=len(manifest.files), rows=manifest.totals.rows, problems=tuple(problems)
    )


def _file_problem(path: Path, entry: FileEntry, manifest: Manifest) -> str:
    if file_sha256(path) != entry.sha256:
        return "its sha256 is not the manifest's"
    try:
        if not pq.read_schema(path).equals(schema_of(manifest.columns)):
            return f"its columns are not {', '.join(manifest.columns)}"
        return _rows_problem(path, entry, manifest)
    except (pa.ArrowException, ValueError, OSError) as error:
        return f"it cannot be read ({error})"


def _rows_problem(path: Path, entry: FileEntry, manifest: Manifest) -> str:
    rows = num_bytes = 0
    for table in row_groups(path):
        if problem := _table_problem(table, manifest):
            return f"{problem} among rows {rows} to {rows + len(table) - 1}"
        rows += len(table)
        num_bytes += int(np.asarray(table["num_bytes"]).sum())
    if rows != entry.rows:
        return f"{rows} rows, expected {entry.rows}"
    if num_bytes != entry.num_bytes:
        return f"rows spell {num_bytes} bytes, expected {entry.num_bytes}"
    return ""


def _table_problem(table: pa.Table, manifest: Manifest) -> str:
    ids = matrix(table["input_ids"], manifest.row_length)
    mask = matrix(table["attention_mask"], manifest.row_length)
    if ids.min() < 0 or ids.max() >= manifest.vocab_size:
        return f"an id outside the vocabulary of {manifest.vocab_size}"
    if not np.isin(mask, (0, 1)).all() or (np.diff(mask, axis=1) > 0).any():
        return "an attention mask that is not ones and then zeros"
    if (ids[mask == 0] != manifest.special_ids.pad).any():
        return f"padding that is not id {manifest.special_ids.pad}"
    if manifest.target_kind == "shift":
        return ""
    return _labels_problem(table, ids, mask, manifest)


def _labels_problem(table: pa.Table, ids: np.ndarray, mask: np.ndarray, manifest: Manifest) -> str:
    labels = matrix(table["labels"], manifest.row_length)
    scored = labels != IGNORED_LABEL
    if labels[scored].size and not 0 <= labels[scored].min() <= labels.max() < manifest.vocab_size:
        return f"a label outside the vocabulary of {manifest.vocab_size}"
    inside = scored[:, :-1]
    if (labels[:, :-1][inside] != ids[:, 1:][inside]).any():
        return "a label that is not the next token"
    if (scored & (mask == 0)).any() or (inside & (mask[:, 1:] == 0)).any():
        return "a label in the padding"
    if manifest.target_kind == "weights":
        weights = matrix(table["loss_weights"], manifest.row_length)
        if not np.isfinite(weights).all() or ((weights > 0) != scored).any():
            return "loss weights that disagree with the labels"
    return ""

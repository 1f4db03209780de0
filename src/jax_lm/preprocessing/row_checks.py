"""What every feature row promises, checked on a table of them."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from jax_lm.preprocessing.cutting.base import IGNORED_LABEL
from jax_lm.preprocessing.features import matrix
from jax_lm.preprocessing.manifest import Manifest


def table_problem(table: pa.Table, manifest: Manifest) -> str:
    """What is wrong with a table of rows; an empty string if nothing is.

    Raises:
        ValueError: a row is not of the promised length.
    """
    ids = matrix(table["input_ids"], manifest.row_length)
    mask = matrix(table["attention_mask"], manifest.row_length)
    by_id = bool(manifest.settings.get("seed_compatible"))
    problem = _ids_problem(ids, mask, manifest, "" if by_id else "an attention mask")
    if by_id and (mask != (ids > 0)).any():
        problem = "an attention mask that is not where ids are above 0"
    if not problem and "labels" in manifest.columns:
        labels = matrix(table["labels"], manifest.row_length)
        problem = _labels_problem(labels, ids, None if by_id else mask, manifest.vocab_size)
        if not problem and "loss_weights" in manifest.columns:
            problem = _weights_problem(matrix(table["loss_weights"], manifest.row_length), labels)
    if problem:
        return problem
    lengths = np.full(len(mask), mask.shape[1]) if by_id else mask.sum(axis=1, dtype=np.int64)
    return _other_problem(table, mask, lengths, manifest)


def table_counts(table: pa.Table, manifest: Manifest) -> Mapping[str, int]:
    """Rows of a table, targets that are scored, and bytes these spell."""
    if manifest.target_kind == "pairs":
        targets = int(_flat(table["target_mask"]).sum(dtype=np.int64))
    elif manifest.target_kind == "drawn":
        targets = int(_flat(table["attention_mask"]).sum(dtype=np.int64))
    elif manifest.target_kind == "shift":
        lengths = matrix(table["attention_mask"], manifest.row_length).sum(axis=1, dtype=np.int64)
        targets = int((lengths - 1).clip(0).sum())
    else:
        targets = int((_flat(table["labels"]) != IGNORED_LABEL).sum())
    num_bytes = int(np.asarray(table["num_bytes"]).sum(dtype=np.int64))
    return {"rows": len(table), "targets": targets, "num_bytes": num_bytes}


def _ids_problem(ids: np.ndarray, mask: np.ndarray, manifest: Manifest, mask_name: str) -> str:
    """``mask_name`` is empty where the mask says nothing of lengths."""
    if ids.min() < 0 or ids.max() >= manifest.vocab_size:
        return f"an id outside the vocabulary of {manifest.vocab_size}"
    if not mask_name:
        return ""
    if not np.isin(mask, (0, 1)).all() or (np.diff(mask, axis=1) > 0).any():
        return f"{mask_name} that is not ones and then zeros"
    if (ids[mask == 0] != manifest.special_ids.pad).any():
        return f"padding that is not id {manifest.special_ids.pad}"
    return ""


def _labels_problem(
    labels: np.ndarray, ids: np.ndarray, mask: np.ndarray | None, vocab_size: int
) -> str:
    scored = labels != IGNORED_LABEL
    if labels[scored].size and not 0 <= labels[scored].min() <= labels.max() < vocab_size:
        return f"a label outside the vocabulary of {vocab_size}"
    inside = scored[:, :-1]
    if (labels[:, :-1][inside] != ids[:, 1:][inside]).any():
        return "a label that is not the next token"
    if mask is None:
        return "a label of id 0" if (labels == 0).any() else ""
    if (scored & (mask == 0)).any() or (inside & (mask[:, 1:] == 0)).any():
        return "a label in the padding"
    return ""


def _weights_problem(weights: np.ndarray, labels: np.ndarray) -> str:
    if not np.isfinite(weights).all() or ((weights > 0) != (labels != IGNORED_LABEL)).any():
        return "loss weights that disagree with the labels"
    return ""


def _other_problem(
    table: pa.Table, mask: np.ndarray, lengths: np.ndarray, manifest: Manifest
) -> str:
    if manifest.target_row_length is not None:
        targets = matrix(table["target_ids"], manifest.target_row_length)
        target_mask = matrix(table["target_mask"], manifest.target_row_length)
        if problem := _ids_problem(targets, target_mask, manifest, "a target mask"):
            return problem
    if "segment_ids" in manifest.columns:
        segments = matrix(table["segment_ids"], manifest.row_length)
        if _segments_are_wrong(segments, mask):
            return "segment ids that do not count documents from 1"
    if "sentence_ends" in manifest.columns and _ends_are_wrong(table, lengths):
        return "sentence ends that are not ascending places of the row"
    if (np.asarray(table["num_bytes"]) < 0).any():
        return "a negative number of bytes"
    unknown = set(table["subset"].unique().to_pylist()) - set(manifest.subsets)
    return f"subset {unknown.pop()!r}, which the manifest does not name" if unknown else ""


def _segments_are_wrong(segments: np.ndarray, mask: np.ndarray) -> bool:
    falls = (np.diff(segments, axis=1) < 0) & (mask[:, 1:] == 1)
    starts = (segments[:, 0] != 1) & (mask[:, 0] == 1)
    return bool(falls.any() or starts.any() or ((segments > 0) != (mask == 1)).any())


def _ends_are_wrong(table: pa.Table, lengths: np.ndarray) -> bool:
    lists = table["sentence_ends"].combine_chunks()
    ends, sizes = np.asarray(lists.flatten()), np.asarray(lists.value_lengths())
    row = np.repeat(np.arange(len(sizes)), sizes)
    outside = (ends < 1) | (ends > lengths[row])
    falls = (np.diff(ends) <= 0) & (np.diff(row) == 0)
    return bool(lists.null_count or outside.any() or falls.any())


def _flat(column: pa.ChunkedArray) -> np.ndarray:
    values: np.ndarray = np.asarray(column.combine_chunks().flatten())
    return values

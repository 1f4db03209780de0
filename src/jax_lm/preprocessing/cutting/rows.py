"""Rows from windows of tokens, and the rows of several parts as one."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from jax_lm.preprocessing.cutting.base import IGNORED_LABEL, FeatureRows
from jax_lm.types import Rows


def shifted_rows(
    ids: Int[np.ndarray, "batch width"],
    lengths: Int[np.ndarray, "batch"],
    *,
    weights: Float[np.ndarray, "batch width"] | None,
    num_bytes: Int[np.ndarray, "batch width"],
    kind: str,
    subset: int | Int[np.ndarray, "batch"],
) -> FeatureRows:
    """Rows whose targets are the next ids of windows of T + 1 ids, or drawn from T ids.

    Args:
        ids: the windows.
        lengths: real tokens of each; what follows is padding.
        weights: of each id as a target; None: all real ones are 1. A window's first id never is.
        num_bytes: UTF-8 bytes that each id stands for, 0 in the padding.
        kind: "shift" and "drawn" keep windows whole; others split them into inputs and labels of T.
        subset: of all rows, or of each.
    """
    if kind == "drawn":
        return drawn_rows(ids, lengths, num_bytes, subset)
    real = np.arange(1, ids.shape[1]) < lengths[:, None]
    scored = real if weights is None else real & (weights[:, 1:] > 0)
    spelled = num_bytes[:, 1:]
    if kind == "shift":
        rows = Rows(ids, lengths)
    else:
        width = ids.shape[1] - 1
        labels = np.where(scored, ids[:, 1:], IGNORED_LABEL).astype(np.int32)
        loss_weights = None
        if kind == "weights":
            loss_weights = scored.astype(np.float32) * (1 if weights is None else weights[:, 1:])
        rows = Rows(ids[:, :-1], np.minimum(lengths, width), labels, loss_weights)
    return FeatureRows(
        rows,
        np.where(scored, spelled, 0).sum(axis=1, dtype=np.int32),
        np.full(len(ids), subset, np.int32),
        (),
        int(scored.sum()),
        int(rows.lengths.sum()),
    )


def drawn_rows(
    ids: Int[np.ndarray, "batch width"],
    lengths: Int[np.ndarray, "batch"],
    num_bytes: Int[np.ndarray, "batch width"],
    subset: int | Int[np.ndarray, "batch"],
) -> FeatureRows:
    """Rows from which targets are drawn when they are read: any token may become one."""
    return FeatureRows(
        Rows(ids, lengths),
        num_bytes.sum(axis=1, dtype=np.int32),
        np.full(len(ids), subset, np.int32),
        (),
        int(lengths.sum()),
        int(lengths.sum()),
        drawn=True,
    )


def runs_as_rows(
    values: Shaped[np.ndarray, "tokens"],
    starts: Int[np.ndarray, "batch"],
    lengths: Int[np.ndarray, "batch"],
    *,
    width: int,
    lead: int = 0,
    fill: int = 0,
) -> Shaped[np.ndarray, "batch width"]:
    """Row i is ``values[starts[i]:starts[i] + lengths[i]]`` from column ``lead`` on, else fill."""
    rows = np.full((len(starts), width), fill, values.dtype)
    places = width - lead
    padded = np.concatenate([values, np.full(places, fill, values.dtype)])
    rows[:, lead:] = np.lib.stride_tricks.sliding_window_view(padded, places)[starts]
    rows[:, lead:][np.arange(places) >= lengths[:, None]] = fill
    return rows


def ends_as_rows(
    ends: Int[np.ndarray, "sentences"],
    starts: Int[np.ndarray, "batch"],
    lengths: Int[np.ndarray, "batch"],
    lead: int = 0,
) -> Int[np.ndarray, "batch ends"]:
    """Sentence ends within runs of tokens, counted from each row's start, filled up with -1."""
    first = np.searchsorted(ends, starts, side="right")
    counts = np.searchsorted(ends, starts + lengths, side="right") - first
    filled = np.full((len(starts), max(int(counts.max(initial=0)), 1)), -1, np.int32)
    row = np.repeat(np.arange(len(starts)), counts)
    column = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    filled[row, column] = ends[first[row] + column] - starts[row] + lead
    return filled


def join_rows(parts: Sequence[FeatureRows], subsets: tuple[str, ...]) -> FeatureRows | None:
    """The rows of all parts in order, with the shard's subsets; None where there is no part."""
    if not parts:
        return None
    columns: list[Any] = [_stacked(values) for values in zip(*(p.rows for p in parts), strict=True)]
    dropped: Counter[str] = Counter()
    for part in parts:
        dropped.update(part.dropped)
    return FeatureRows(
        Rows(*columns),
        np.concatenate([part.num_bytes for part in parts]),
        np.concatenate([part.subset_ids for part in parts]),
        subsets,
        sum(part.targets for part in parts),
        sum(part.tokens for part in parts),
        sum(part.cut_off for part in parts),
        dropped,
        drawn=any(part.drawn for part in parts),
    )


def _stacked(values: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """One array under another; ragged ones are filled up with -1."""
    arrays = [value for value in values if value is not None]
    if not arrays:
        return None
    if len(arrays) == 1:
        return arrays[0]
    width = max(array.shape[-1] for array in arrays)
    if arrays[0].ndim == 2:
        gaps = [(array, width - array.shape[1]) for array in arrays]
        arrays = [np.pad(a, ((0, 0), (0, gap)), constant_values=-1) for a, gap in gaps]
    return np.concatenate(arrays)

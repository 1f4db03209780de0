"""Mode ``packed``: documents joined by a separator and cut every T tokens; nothing is lost."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from jax_lm.preprocessing.cutting.base import Cutting, FeatureRows, kind_of
from jax_lm.preprocessing.cutting.rows import drawn_rows, join_rows, shifted_rows
from jax_lm.preprocessing.tokenized import TokenizedDocuments
from jax_lm.types import Rows


class Stream(NamedTuple):
    """Tokens of one subset in reading order: ``[SEP] d1 SEP d2 SEP ... dn SEP``."""

    ids: Int[np.ndarray, "tokens"]
    num_bytes: Int[np.ndarray, "tokens"]
    """0 for separators."""
    weights: Float[np.ndarray, "tokens"] | None
    """None: all are 1."""
    documents: Int[np.ndarray, "tokens"] | None
    """Number of each token's document, from 1; a separator counts with what it begins. Only
    where segment ids are asked for."""
    sentence_ends: Int[np.ndarray, "sentences"] | None


def pack(documents: TokenizedDocuments, cutting: Cutting) -> FeatureRows | None:
    """Cut each subset's stream into rows of T + 1 ids that start every T ids.

    Each row's last id is the next row's first, so every id but the very first is a target exactly
    once. For other kinds than "shift" the ids are split into inputs and labels of T. Where targets
    are drawn, rows are of T ids and none is in two. None: there is no token to put in a row.
    """
    documents = without_final_separators(documents, cutting)
    kind = kind_of(documents, cutting)
    parts = []
    for subset in range(len(documents.subsets)):
        stream = _stream(documents, np.flatnonzero(documents.subset_ids == subset), cutting)
        if len(stream.ids):
            parts.append(_rows(stream, subset, kind, cutting))
    return join_rows(parts, documents.subsets)


def without_final_separators(documents: TokenizedDocuments, cutting: Cutting) -> TokenizedDocuments:
    """Documents without the separator that some end with themselves, as a chat template's end.

    It would follow them twice. A separator that ordinary text can spell is not touched.
    """
    separator, offsets = cutting.special.separator, documents.offsets
    lasts = offsets[1:][np.diff(offsets) > 0] - 1
    ended = lasts[documents.ids[lasts] == separator]
    if separator not in cutting.special.all or not len(ended):
        return documents
    kept = np.ones(len(documents.ids), bool)
    kept[ended] = False
    before = np.concatenate([[0], np.cumsum(kept)])
    ends = documents.sentence_ends
    return documents._replace(
        ids=documents.ids[kept],
        num_bytes=documents.num_bytes[kept],
        offsets=before[offsets],
        weights=None if documents.weights is None else documents.weights[kept],
        sentence_ends=None if ends is None else np.unique(before[ends]),
    )


def _stream(
    documents: TokenizedDocuments, chosen: Int[np.ndarray, "chosen"], cutting: Cutting
) -> Stream:
    lengths = documents.lengths[chosen]
    ids, num_bytes, weights = documents.ids, documents.num_bytes, documents.weights
    ends = documents.sentence_ends
    if len(chosen) < len(documents.subset_ids):
        places = _places(documents.offsets[chosen], lengths)
        ids, num_bytes = ids[places], num_bytes[places]
        weights = None if weights is None else weights[places]
        ends = None if ends is None else _moved_ends(ends, documents.offsets, chosen, lengths)
    if cutting.special.separator is None:
        numbers = _numbers(lengths) if cutting.segment_ids else None
        return Stream(ids, num_bytes, weights, numbers, ends)
    cuts = np.concatenate([[0], np.cumsum(lengths)])
    if weights is not None:
        after = _any_positive(weights, cuts)
        weights = np.insert(weights, cuts, np.concatenate([[1.0], after]).astype(np.float32))
    return Stream(
        np.insert(ids, cuts, np.int32(cutting.special.separator)),
        np.insert(num_bytes, cuts, np.int32(0)),
        weights,
        np.append(_numbers(lengths + 1), len(chosen) + 1) if cutting.segment_ids else None,
        None if ends is None else ends + np.searchsorted(cuts, ends, side="left"),
    )


def _rows(stream: Stream, subset: int, kind: str, cutting: Cutting) -> FeatureRows:
    if kind == "drawn":
        return _drawn_rows(stream, subset, cutting)
    length = cutting.sequence_length
    count = max(1, math.ceil((len(stream.ids) - 1) / length))
    lengths = np.clip(len(stream.ids) - np.arange(count) * length, 1, length + 1).astype(np.int32)
    weights = stream.weights
    if weights is None and kind == "shift":
        return _plain_rows(stream, subset, lengths, cutting)
    if stream.documents is not None and cutting.special.separator is None:
        crossing = np.diff(stream.documents, prepend=1) > 0
        weights = np.where(crossing, 0, 1 if weights is None else weights).astype(np.float32)
    part = shifted_rows(
        _windows(stream.ids, count, length, cutting.special.pad),
        lengths,
        weights=None if weights is None else _windows(weights, count, length, 0),
        num_bytes=_windows(stream.num_bytes, count, length, 0),
        kind=kind,
        subset=subset,
    )
    rows = part.rows._replace(sentence_ends=_ends_of_rows(stream, count, length))
    rows = rows._replace(segment_ids=_segments_of_rows(stream, count, length))
    return part._replace(rows=rows, tokens=len(stream.ids))


def _drawn_rows(stream: Stream, subset: int, cutting: Cutting) -> FeatureRows:
    length = cutting.sequence_length
    count = math.ceil(len(stream.ids) / length)
    part = drawn_rows(
        _windows(stream.ids, count, length, cutting.special.pad)[:, :-1],
        np.clip(len(stream.ids) - np.arange(count) * length, 1, length).astype(np.int32),
        _windows(stream.num_bytes, count, length, 0)[:, :-1],
        subset,
    )
    rows = part.rows._replace(
        sentence_ends=_ends_of_rows(stream, count, length),
        segment_ids=_segments_of_rows(stream, count, length),
    )
    return part._replace(rows=rows)


def _plain_rows(
    stream: Stream, subset: int, lengths: Int[np.ndarray, "batch"], cutting: Cutting
) -> FeatureRows:
    """The rows where every token is scored: the common case, without masks of every place."""
    count, length = len(lengths), cutting.sequence_length
    num_bytes = np.zeros(count, np.int32)
    if len(stream.ids) > 1:
        num_bytes[:] = np.add.reduceat(stream.num_bytes, np.arange(count) * length + 1)
    ids = _windows(stream.ids, count, length, cutting.special.pad)
    return FeatureRows(
        Rows(ids, lengths, sentence_ends=_ends_of_rows(stream, count, length)),
        num_bytes,
        np.full(count, subset, np.int32),
        (),
        targets=len(stream.ids) - 1,
        tokens=len(stream.ids),
    )


def _numbers(lengths: Int[np.ndarray, "documents"]) -> Int[np.ndarray, "tokens"]:
    return np.repeat(np.arange(1, len(lengths) + 1), lengths)


def _windows(values: np.ndarray, count: int, length: int, fill: int) -> np.ndarray:
    padded = np.full(count * length + 1, fill, values.dtype)
    padded[: len(values)] = values
    return np.lib.stride_tricks.sliding_window_view(padded, length + 1)[::length]


def _places(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Positions of runs of tokens, given where each starts and how long it is."""
    before = np.cumsum(lengths) - lengths
    places: np.ndarray = np.arange(lengths.sum()) + np.repeat(starts - before, lengths)
    return places


def _any_positive(weights: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """For each document, whether any of its tokens is scored; an empty one counts as scored."""
    positive = np.concatenate([[0], np.cumsum(weights > 0)])
    scored: np.ndarray = positive[cuts[1:]] > positive[cuts[:-1]]
    scored |= cuts[1:] == cuts[:-1]
    return scored


def _moved_ends(
    ends: np.ndarray, offsets: np.ndarray, chosen: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
    """Sentence ends of the chosen documents, as positions among the chosen tokens."""
    document = np.searchsorted(offsets, ends, side="left") - 1
    kept = np.isin(document, chosen)
    place = np.searchsorted(chosen, document[kept])
    before = np.cumsum(lengths) - lengths
    moved: np.ndarray = ends[kept] - offsets[document[kept]] + before[place]
    return moved


def _segments_of_rows(
    stream: Stream, count: int, length: int
) -> Int[np.ndarray, "rows length"] | None:
    """Number of each input's document within its row."""
    if stream.documents is None:
        return None
    numbers = _windows(stream.documents, count, length, 0)[:, :-1]
    return np.where(numbers > 0, numbers - numbers[:, :1] + 1, 0).astype(np.int16)


def _ends_of_rows(stream: Stream, count: int, length: int) -> Int[np.ndarray, "rows ends"] | None:
    """Ends within each row's T inputs, counted from its start and filled up with -1."""
    ends = stream.sentence_ends
    if ends is None:
        return None
    row = np.minimum((ends - 1) // length, count - 1)
    start = np.searchsorted(row, np.arange(count))
    sizes = np.diff(start, append=len(ends))
    filled = np.full((count, max(int(sizes.max(initial=0)), 1)), -1, np.int32)
    column = np.arange(len(ends)) - start[row]
    filled[row, column] = ends - row * length
    return filled

"""A shard cut a part at a time, so that padding takes no more memory than text does."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
from jaxtyping import Int

from jax_lm.preprocessing.cutting.base import Cutting, FeatureRows, kind_of
from jax_lm.preprocessing.cutting.modes import MODES
from jax_lm.preprocessing.tokenized import TokenizedDocuments

BLOCK_PLACES = 4_194_304
"""Places of the rows that are cut at once; a row group of the Parquet file holds as many."""


def cut_in_blocks(documents: TokenizedDocuments, cutting: Cutting) -> Iterator[FeatureRows]:
    """Rows of a shard in order, in parts that all have the same columns.

    Short documents in long rows are mostly padding: a shard of a few megabytes may fill
    gigabytes. Only the rows of one document are never cut apart. Mode ``packed``, which pads
    nothing and joins documents, gives one part.
    """
    cutting = replace(cutting, kind=kind_of(documents, cutting))
    cut = MODES[cutting.mode]
    blocks = [documents] if cutting.mode == "packed" else _blocks(documents, cutting)
    for block in blocks:
        features = cut(block, cutting)
        if features is not None:
            yield features


def _blocks(documents: TokenizedDocuments, cutting: Cutting) -> Iterator[TokenizedDocuments]:
    rows = _rows(documents, cutting)
    room = max(1, BLOCK_PLACES // (cutting.sequence_length + 1))
    block = (np.cumsum(rows) - rows) // room
    starts = [*np.flatnonzero(np.diff(block, prepend=-1)).tolist(), len(rows)]
    for first, last in pairwise(starts):
        yield _part(documents, first, last)


def _rows(documents: TokenizedDocuments, cutting: Cutting) -> Int[np.ndarray, "documents"]:
    """About how many rows each document gives, and no fewer than one."""
    length = cutting.sequence_length
    if cutting.mode == "windows":
        return 1 + documents.lengths // (cutting.stride or length)
    if cutting.mode == "rolling":
        return 1 + documents.lengths // (length - cutting.context_length + 1)
    if cutting.mode == "pairs" and documents.weights is not None:
        begins = np.diff(documents.weights > 0, prepend=False) & (documents.weights > 0)
        before = np.concatenate([[0], np.cumsum(begins)])
        answers: np.ndarray = np.diff(before[documents.offsets])
        return answers + 1
    return np.ones(len(documents.lengths), np.int64)


def _part(documents: TokenizedDocuments, first: int, last: int) -> TokenizedDocuments:
    start, stop = documents.offsets[first], documents.offsets[last]
    ends, weights = documents.sentence_ends, documents.weights
    if ends is not None:
        inside = np.searchsorted(ends, [start, stop], side="right")
        ends = ends[inside[0] : inside[1]] - start
    return documents._replace(
        ids=documents.ids[start:stop],
        num_bytes=documents.num_bytes[start:stop],
        offsets=documents.offsets[first : last + 1] - start,
        weights=None if weights is None else weights[start:stop],
        subset_ids=documents.subset_ids[first:last],
        sentence_ends=ends,
    )

"""Documents or pieces of them as rows of their own, between the tokens that begin and end one."""

from typing import NamedTuple, Self

import numpy as np
from jaxtyping import Bool, Float, Int

from jax_lm.preprocessing.cutting.base import Cutting, FeatureRows, end_id, kind_of, start_id
from jax_lm.preprocessing.cutting.rows import ends_as_rows, runs_as_rows, shifted_rows
from jax_lm.preprocessing.tokenized import TokenizedDocuments

EMPTY = "documents without any token"


class Runs(NamedTuple):
    """Runs of a shard's tokens, each for one row."""

    document: Int[np.ndarray, "runs"]
    """Which document each is from."""
    start: Int[np.ndarray, "runs"]
    """Position in the shard's ids of its first token."""
    length: Int[np.ndarray, "runs"]

    def chosen(self, which: Bool[np.ndarray, "runs"]) -> Self:
        """Those of the runs."""
        return type(self)(self.document[which], self.start[which], self.length[which])


def document_runs(documents: TokenizedDocuments, begin: int | None, end: int | None) -> Runs:
    """One run a document that has tokens, without a ``begin`` or ``end`` it has already."""
    start, length, ids = documents.offsets[:-1], documents.lengths, documents.ids
    runs = Runs(np.arange(len(length)), start, length).chosen(length > 0)
    led = (runs.length > 1) & (ids[runs.start] == (-1 if begin is None else begin))
    runs = runs._replace(start=runs.start + led, length=runs.length - led)
    closed = (runs.length > 1) & (ids[runs.start + runs.length - 1] == (-1 if end is None else end))
    return runs._replace(length=runs.length - closed)


def covered(starts: Int[np.ndarray, "runs"], lengths: Int[np.ndarray, "runs"], tokens: int) -> int:
    """How many of a shard's tokens lie in at least one run."""
    change = np.bincount(starts, minlength=tokens + 1)
    change -= np.bincount(starts + lengths, minlength=tokens + 1)
    return int((np.cumsum(change) > 0).sum())


def framed_rows(documents: TokenizedDocuments, runs: Runs, cutting: Cutting) -> FeatureRows:
    """Rows ``[begin] run [end]`` of up to T + 1 ids, where the tokenizer has such tokens.

    Where targets are drawn, rows are of up to T ids. What does not fit is cut off; the end token
    goes first. It is a target where anything of its run is.
    """
    begin, end = start_id(cutting.special), end_id(cutting.special)
    lead, width = int(begin is not None), cutting.window_length
    shape = {"width": width, "lead": lead}
    length = np.minimum(runs.length, width - lead)
    ids = runs_as_rows(documents.ids, runs.start, length, fill=cutting.special.pad, **shape)
    num_bytes = runs_as_rows(documents.num_bytes, runs.start, length, **shape)
    weights = None
    if documents.weights is not None:
        weights = runs_as_rows(documents.weights, runs.start, length, **shape)
    if begin is not None:
        ids[:, 0] = begin
    closed = np.zeros(len(length), bool) if end is None else lead + length < width
    if end is not None:
        place = (closed.nonzero()[0], (lead + length)[closed])
        ids[place] = end
        if weights is not None:
            weights[place] = (weights[closed] > 0).any(axis=1)
    features = _scored(documents, runs, cutting, (ids, lead + length + closed, num_bytes, weights))
    if documents.sentence_ends is None:
        return features
    inputs = np.minimum(length, cutting.sequence_length - lead)
    ends = ends_as_rows(documents.sentence_ends, runs.start, inputs, lead)
    return features._replace(rows=features.rows._replace(sentence_ends=ends))


def _scored(
    documents: TokenizedDocuments,
    runs: Runs,
    cutting: Cutting,
    windows: tuple[np.ndarray, np.ndarray, np.ndarray, Float[np.ndarray, "rows width"] | None],
) -> FeatureRows:
    ids, lengths, num_bytes, weights = windows
    mask = None
    if cutting.seed_compatible:
        weights = np.where(ids == 0, 0, 1 if weights is None else weights).astype(np.float32)
        mask = (ids[:, :-1] > 0).astype(np.int8)
    features = shifted_rows(
        ids,
        lengths.astype(np.int32),
        weights=weights,
        num_bytes=num_bytes,
        kind=kind_of(documents, cutting),
        subset=documents.subset_ids[runs.document],
    )
    tokens = int(lengths.sum())
    return features._replace(subsets=documents.subsets, tokens=tokens, attention_mask=mask)

"""Mode ``rolling``: every token is scored exactly once, with context before it."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from jax_lm.preprocessing.cutting.base import Cutting, FeatureRows, kind_of, start_id
from jax_lm.preprocessing.cutting.rows import runs_as_rows, shifted_rows
from jax_lm.preprocessing.cutting.runs import EMPTY
from jax_lm.preprocessing.tokenized import TokenizedDocuments

ONE_TOKEN = "documents of one token, with no token to predict it from"


class Streams(NamedTuple):
    """Each document behind the token that its first is predicted from, one after another."""

    ids: Int[np.ndarray, "tokens"]
    num_bytes: Int[np.ndarray, "tokens"]
    weights: np.ndarray | None
    start: Int[np.ndarray, "documents"]
    """Where each document's stream begins."""
    targets: Int[np.ndarray, "documents"]
    """Tokens of each to predict: all but its stream's first."""


class Windows(NamedTuple):
    """Windows of the streams; the last ``scored`` of each one's ids count, the rest is context."""

    document: Int[np.ndarray, "windows"]
    start: Int[np.ndarray, "windows"]
    length: Int[np.ndarray, "windows"]
    scored: Int[np.ndarray, "windows"]


def cut_rolling(documents: TokenizedDocuments, cutting: Cutting) -> FeatureRows:
    """Cut each document into windows of T inputs that score each of its tokens once.

    The first window scores up to T tokens, the first of them predicted from BOS, else EOS, else
    the separator, else it is context only. Each later one scores the next T - c + 1, with the T
    tokens before the last of them as input, c being the context length (Gao et al. 2020,
    arXiv:2101.00027, appendix C). With c = T a row is written for each token: choose a small
    shard size then.
    """
    streams = _streams(documents, start_id(cutting.special))
    windows = _windows(streams, cutting.sequence_length, cutting.context_length)
    place = {"width": cutting.sequence_length + 1}
    ids = runs_as_rows(
        streams.ids, windows.start, windows.length, fill=cutting.special.pad, **place
    )
    weights = np.ones(ids.shape, np.float32)
    if streams.weights is not None:
        weights = runs_as_rows(streams.weights, windows.start, windows.length, **place)
    weights[np.arange(ids.shape[1]) < (windows.length - windows.scored)[:, None]] = 0
    features = shifted_rows(
        ids,
        windows.length.astype(np.int32),
        weights=weights,
        num_bytes=runs_as_rows(streams.num_bytes, windows.start, windows.length, **place),
        kind=kind_of(documents, cutting, "labels"),
        subset=documents.subset_ids[windows.document],
    )
    scored = streams.targets > 0
    empty, lone = int((documents.lengths == 0).sum()), int((~scored).sum())
    dropped = {EMPTY: empty, ONE_TOKEN: lone - empty}
    return features._replace(
        subsets=documents.subsets,
        tokens=int(streams.targets.sum() + scored.sum()),
        cut_off=lone - empty,
        dropped={reason: count for reason, count in dropped.items() if count},
    )


def _streams(documents: TokenizedDocuments, prefix: int | None) -> Streams:
    starts, lengths = documents.offsets[:-1], documents.lengths
    ids, num_bytes, weights = documents.ids, documents.num_bytes, documents.weights
    if prefix is None:
        return Streams(ids, num_bytes, weights, starts, np.maximum(lengths - 1, 0))
    has_own = (lengths > 1) & (np.append(ids, -1)[starts] == prefix)
    return Streams(
        np.insert(ids, starts, np.int32(prefix)),
        np.insert(num_bytes, starts, np.int32(0)),
        None if weights is None else np.insert(weights, starts, np.float32(0)),
        starts + np.arange(len(starts)) + has_own,
        lengths - has_own,
    )


def _windows(streams: Streams, width: int, context: int) -> Windows:
    step, targets = width - context + 1, streams.targets
    counts = np.where(targets > 0, 1 + -(-np.maximum(targets - width, 0) // step), 0)
    document = np.repeat(np.arange(len(counts)), counts)
    index = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
    done = np.minimum(width + index * step, targets[document])
    before = np.where(index == 0, 0, width + (index - 1) * step)
    skipped = np.maximum(done - width, 0)
    start = streams.start[document] + skipped
    return Windows(document, start, done - skipped + 1, done - before)

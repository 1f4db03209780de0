"""Signatures of all documents -> which to leave out: a function of their order alone.

Exact copies are those whose 128-bit hashes agree. Near copies are found by banding (Leskovec,
Rajaraman and Ullman, Mining of Massive Datasets, 3.4): the functions are cut into bands, documents
that agree on all of a band are compared, and those whose estimated similarity does not lie clearly
below the threshold are one family, of which the first is kept. Families join where they share a
document.

Memory beside the signatures, which may be memory-mapped: about 100 bytes a document.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int, UInt

from jax_lm.errors import UsageError
from jax_lm.preprocessing.deduplication.signatures import HASH_FUNCTIONS

MOST_MISSED = 1e-3
"""Of pairs right at the threshold, the share that may agree on no band."""
TOLERANCE = 1.5
"""Standard errors by which an estimate may lie below the threshold. Copies of similarity 0.87, with
two words in 150 altered, then pass for different once in tens of thousands of times, not once in a
hundred."""
LEADERS = 32
"""Documents of one bucket that others are compared with: bounds the work that a bucket makes."""
COMPARED_AT_ONCE = 1 << 14
_ODD = np.uint64(0x9E3779B97F4A7C15)


class Duplicates(NamedTuple):
    """What to leave out of one shard."""

    ordinals: Int[np.ndarray, "dropped"]
    """Documents of the shard, counting from 0, in order (int64)."""
    kept: Int[np.ndarray, "dropped"]
    """The document that is kept in place of each, counting over all shards (int64)."""
    exact: Bool[np.ndarray, "dropped"]
    """Whether it is an exact copy of one before it, a near copy otherwise."""


def find_duplicates(
    shards: Sequence[np.ndarray], *, near: bool, threshold: float = 0.8
) -> list[Duplicates]:
    """All copies of documents that come earlier in the order of the source.

    Args:
        shards: the signatures of every shard, in the order of the source.
        near: near copies too; the signatures must be of type ``NEAR``.
        threshold: least Jaccard similarity of near copies.

    Returns:
        One element a shard. The same whatever the shards' boundaries.

    Raises:
        UsageError: the threshold is not above 0 and at most 1.
    """
    if not 0 < threshold <= 1:
        raise UsageError(
            f"the threshold of near copies is {threshold}, expected above 0, at most 1"
        )
    first = _exact(shards)
    exact = first != np.arange(len(first))
    if near:
        _Families(shards, first, threshold).join()
    return list(_by_shard(shards, first, exact))


def num_band_rows(threshold: float) -> int:
    """Functions in a band: as many as miss no more pairs at the threshold than may be missed."""
    rows = 1
    while _missed(threshold, rows + 1) <= MOST_MISSED:
        rows += 1
        if rows == HASH_FUNCTIONS:
            break
    return rows


def least_estimate(threshold: float) -> float:
    """The estimated similarity from which two documents are near copies."""
    standard_error = math.sqrt(threshold * (1 - threshold) / HASH_FUNCTIONS)
    return threshold - TOLERANCE * standard_error


def _missed(threshold: float, rows: int) -> float:
    """Probability that a pair of this similarity agrees on no band."""
    return float((1 - threshold**rows) ** (HASH_FUNCTIONS // rows))


def _exact(shards: Sequence[np.ndarray]) -> Int[np.ndarray, "documents"]:
    """The first document with the same text as each."""
    keys = np.concatenate([np.empty((0, 2), np.uint64), *(shard["text"] for shard in shards)])
    first = np.arange(len(keys))
    order = np.lexsort(keys.T)  # stable: within a group, in the order of the source
    groups = np.ones(len(keys), bool)
    groups[1:] = (keys[order[1:]] != keys[order[:-1]]).any(axis=1)
    first[order] = order[groups][np.cumsum(groups) - 1]
    return first


class _Families:
    """Near copies joined; ``first`` names for each document an earlier one of its family."""

    def __init__(
        self, shards: Sequence[np.ndarray], first: Int[np.ndarray, "documents"], threshold: float
    ):
        self.shards = shards
        self.first = first
        self.starts = np.array([0, *accumulate(map(len, shards))])
        self.threshold = threshold
        self.least_estimate = least_estimate(threshold)
        has_shingles = np.concatenate(
            [np.empty(0, bool), *(shard["shingles"] > 0 for shard in shards)]
        )
        self.compared = np.flatnonzero(has_shingles & (first == np.arange(len(first))))

    def join(self) -> None:
        """Compare what agrees on a band, one band after another."""
        rows = num_band_rows(self.threshold)
        for start in range(0, HASH_FUNCTIONS - rows + 1, rows):
            self._join_band(slice(start, start + rows))
            self._flatten()

    def _join_band(self, band: slice) -> None:
        keys = self._keys(band)
        order = np.argsort(keys, kind="stable")
        documents, keys = self.compared[order], keys[order]
        for _ in range(LEADERS):
            if len(documents) < 2:
                break
            same = keys[1:] == keys[:-1]
            crowded = np.append(same, False) | np.append(False, same)
            documents, keys = documents[crowded], keys[crowded]
            leads = np.append([True], keys[1:] != keys[:-1])[: len(keys)]
            leaders = documents[leads][np.cumsum(leads) - 1]
            rest = np.flatnonzero(~leads)
            alike = self._alike(leaders[rest], documents[rest])
            self._unite(leaders[rest[alike]], documents[rest[alike]])
            remaining = rest[~alike]
            documents, keys = documents[remaining], keys[remaining]

    def _keys(self, band: slice) -> UInt[np.ndarray, "compared"]:
        """A hash of each document's values in a band."""
        parts = [np.empty(0, np.uint64)]
        for shard in self.shards:
            key = np.zeros(len(shard), np.uint64)
            for column in shard["minhash"][:, band].T:
                key = (key ^ column) * _ODD
                key ^= key >> np.uint64(29)
            parts.append(key)
        keys: np.ndarray = np.concatenate(parts)[self.compared]
        return keys

    def _alike(
        self, one: Int[np.ndarray, "pairs"], other: Int[np.ndarray, "pairs"]
    ) -> Bool[np.ndarray, "pairs"]:
        alike: np.ndarray = self.first[one] == self.first[other]
        unknown = np.flatnonzero(~alike)
        for start in range(0, len(unknown), COMPARED_AT_ONCE):
            pairs = unknown[start : start + COMPARED_AT_ONCE]
            agree = self._minhash(one[pairs]) == self._minhash(other[pairs])
            alike[pairs] = agree.mean(axis=1) >= self.least_estimate
        return alike

    def _minhash(self, documents: Int[np.ndarray, "some"]) -> UInt[np.ndarray, "some functions"]:
        found = np.empty((len(documents), HASH_FUNCTIONS), np.uint32)
        places = np.searchsorted(self.starts, documents, side="right") - 1
        for place in np.unique(places):
            mine = places == place
            found[mine] = self.shards[place]["minhash"][documents[mine] - self.starts[place]]
        return found

    def _unite(self, one: Int[np.ndarray, "pairs"], other: Int[np.ndarray, "pairs"]) -> None:
        apart = self.first[one] != self.first[other]
        for a, b in zip(one[apart].tolist(), other[apart].tolist(), strict=True):
            low, high = sorted((self._root(a), self._root(b)))
            self.first[high] = low

    def _root(self, document: int) -> int:
        first = self.first
        while first[document] != document:
            first[document] = first[first[document]]
            document = int(first[document])
        return document

    def _flatten(self) -> None:
        while not np.array_equal(self.first, upper := self.first[self.first]):
            self.first[:] = upper


def _by_shard(
    shards: Sequence[np.ndarray],
    first: Int[np.ndarray, "documents"],
    exact: Bool[np.ndarray, "documents"],
) -> Iterator[Duplicates]:
    start = 0
    for shard in shards:
        part = slice(start, start + len(shard))
        kept = first[part]
        ordinals = np.flatnonzero(kept != np.arange(part.start, part.stop))
        yield Duplicates(ordinals, kept[ordinals], exact[part][ordinals])
        start += len(shard)

"""A zstd dictionary learned from a sample of the corpus, so that short documents compress too.

A dictionary is what makes documents that are compressed one by one, and so can be read one by
one, nearly as small as a whole compressed file (zstd manual, "Dictionary builder interface").
"""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from jax_lm.documents.base import Cursor, DocumentSource
from jax_lm.documents.limited import LimitedSource
from jax_lm.documents.stores.payload import encode_document

RANGE_BYTES = 64 << 20
PLACES = 32
"""Parts of the corpus that the sample is drawn from, evenly spaced."""
SAMPLE_BYTES = 8 << 20
LARGEST_SAMPLE = 64 << 10
"""Bytes taken of one document; more would crowd out the others."""
DOCUMENTS_A_PLACE = 8192
DICTIONARY_BYTES = 112 << 10
SAMPLE_OVER_DICTIONARY = 50
"""zstd advises a sample about a hundred times the dictionary; small corpora make do with half."""
SMALLEST_DICTIONARY = 1024


class Place(NamedTuple):
    """A part of a source; its end may be that of the source."""

    start: Cursor
    stop: Cursor | None


def train_dictionary(source: DocumentSource) -> bytes:
    """A dictionary for the documents of ``source``; empty where there is too little text.

    The same source always gives the same dictionary. What ``read`` skips or drops on the way is
    not counted.
    """
    import zstandard

    samples = _samples(source)
    size = min(DICTIONARY_BYTES, sum(map(len, samples)) // SAMPLE_OVER_DICTIONARY)
    if size < SMALLEST_DICTIONARY:
        return b""
    try:
        return zstandard.train_dictionary(size, list(samples)).as_bytes()
    except zstandard.ZstdError:  # too few documents to learn from
        return b""


def _samples(source: DocumentSource) -> list[bytes]:
    known, dropped = len(source.rejects), Counter(source.dropped)
    places = _places(source)
    samples: list[bytes] = []
    for place in places:
        samples.extend(_beginning(source, place, SAMPLE_BYTES // len(places)))
    del source.rejects[known:]  # the build will meet them again
    source.dropped.clear()
    source.dropped.update(dropped)
    return samples


def _places(source: DocumentSource) -> list[Place]:
    """Evenly spaced ranges that can be reached without reading what is before them."""
    if isinstance(source, LimitedSource):  # it would read all its documents to find its ranges
        return [Place(Cursor(0, 0), None)]
    direct = [Place(cut.start, cut.stop) for cut in source.ranges(RANGE_BYTES) if not cut.follows]
    step = max(1, len(direct) // PLACES)
    return direct[::step][:PLACES]


def _beginning(source: DocumentSource, place: Place, num_bytes: int) -> Iterator[bytes]:
    taken = 0
    for _, document in islice(source.read(place.start, place.stop), DOCUMENTS_A_PLACE):
        sample = encode_document(document)[:LARGEST_SAMPLE]
        yield sample
        taken += len(sample)
        if taken >= num_bytes:
            return

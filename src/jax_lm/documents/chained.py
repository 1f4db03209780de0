"""Sources of any kinds, read one after another."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence

from jax_lm.documents.base import Cursor, DocumentRange, DocumentSource, RejectedRecord
from jax_lm.types import Document

START = Cursor(0, 0)
SPAN = 1 << 32
"""Source ``i`` has the file numbers from ``i * SPAN``; none has so many files."""


class ChainedSource:
    """The documents of several sources in the order the sources are named."""

    def __init__(self, sources: Sequence[DocumentSource]):
        self.sources = tuple(sources)
        self.rejects: list[RejectedRecord] = []
        self.dropped: Counter[str] = Counter()

    @property
    def name(self) -> str:
        """The names of the sources."""
        return " ".join(source.name for source in self.sources)

    def fingerprint(self) -> str:
        """Changes with any of the sources, and with their order."""
        prints = " ".join(source.fingerprint() for source in self.sources)
        return hashlib.sha256(f"chained {prints}".encode()).hexdigest()

    def ranges(self, target_bytes: int) -> list[DocumentRange]:
        """The sources' ranges; none goes over from one source into the next."""
        ranges: list[DocumentRange] = []
        for index, source in enumerate(self.sources):
            inner = source.ranges(target_bytes)
            for number, (start, stop, follows) in enumerate(inner):
                is_last = number + 1 == len(inner)
                end = Cursor((index + 1) * SPAN, 0) if is_last else _outer(index, stop)
                begin = ranges[-1].stop if ranges else START
                ranges.append(
                    DocumentRange(begin if start == START else _outer(index, start), end, follows)
                )
        return ranges

    def read(self, start: Cursor, stop: Cursor | None = None) -> Iterator[tuple[Cursor, Document]]:
        """Yield documents from ``start``, each with the cursor right after it.

        Raises:
            BadRecord: a record is malformed, unless its source skips those.
        """
        for index in range(start.file // SPAN, len(self.sources)):
            if stop is not None and stop <= Cursor(index * SPAN, 0):
                return
            source = self.sources[index]
            first = _inner(index, start) if start.file // SPAN == index else START
            last = _inner(index, stop) if stop is not None and stop.file // SPAN == index else None
            for cursor, document in source.read(first, last):
                self._collect(source)
                yield _outer(index, cursor), document
            self._collect(source)

    def _collect(self, source: DocumentSource) -> None:
        """Take over what the source skipped, so that one list can be looked at and cleared."""
        if source.rejects:
            self.rejects.extend(source.rejects)
            source.rejects.clear()
        if source.dropped:
            self.dropped.update(source.dropped)
            source.dropped.clear()


def _outer(index: int, cursor: Cursor) -> Cursor:
    return Cursor(index * SPAN + cursor.file, cursor.offset)


def _inner(index: int, cursor: Cursor) -> Cursor:
    return Cursor(cursor.file - index * SPAN, cursor.offset)

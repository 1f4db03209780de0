"""The first documents of a source, as a source."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from itertools import islice

from jax_lm.documents.base import Cursor, DocumentRange, DocumentSource
from jax_lm.documents.files.source import FileSource
from jax_lm.documents.wrapped import WrappedSource
from jax_lm.types import Document

START = Cursor(0, 0)


class LimitedSource(WrappedSource):
    """At most ``max_documents`` documents of another source."""

    def __init__(self, source: DocumentSource, max_documents: int):
        self.source = source
        self.max_documents = max_documents

    def fingerprint(self) -> str:
        """Changes with the source and with the limit."""
        text = f"{self.source.fingerprint()} first {self.max_documents}"
        return hashlib.sha256(text.encode()).hexdigest()

    def ranges(self, target_bytes: int) -> list[DocumentRange]:
        """The source's ranges up to the limit; reads the documents once to find its place."""
        end = self._end
        cuts = self.source.ranges(target_bytes)
        if end is None:
            return cuts
        return [cut._replace(stop=min(cut.stop, end)) for cut in cuts if cut.start < end]

    def read(self, start: Cursor, stop: Cursor | None = None) -> Iterator[tuple[Cursor, Document]]:
        """Yield documents from ``start`` up to ``stop`` and the limit."""
        if start == START:
            return islice(self.source.read(start, stop), self.max_documents)
        if self._end is not None:
            stop = self._end if stop is None else min(stop, self._end)
        return self.source.read(start, stop)

    @cached_property
    def _end(self) -> Cursor | None:
        """The cursor after the last document within the limit; None: the source is shorter."""
        known, dropped = len(self.rejects), Counter(self.dropped)
        counted = islice(self.source.read(START), self.max_documents - 1, None)
        last = next(counted, None)
        del self.rejects[known:]  # the reading that counts will meet them again
        self.dropped.clear()
        self.dropped.update(dropped)
        return None if last is None else last[0]


def passed_over(source: DocumentSource) -> tuple[str, ...]:
    """Names of the files a directory holds that are no part of its corpus, and so not read."""
    if isinstance(source, FileSource):
        return source.passed_over
    inner = getattr(source, "sources", None) or [getattr(source, "source", None)]
    return tuple(name for one in inner if one is not None for name in passed_over(one))

"""Keeps a document's text as it came while the document is cleaned."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from jax_lm.documents.base import Cursor, DocumentRange, DocumentSource
from jax_lm.documents.wrapped import WrappedSource
from jax_lm.types import Document

KEY = "\0original text"
"""Among a document's metadata, where no field of a record has this name."""


@dataclass(frozen=True)
class KeepingOriginals(WrappedSource):
    """The documents of a source, each with its text a second time among the metadata."""

    source: DocumentSource

    def fingerprint(self) -> str:
        """The source's own."""
        return self.source.fingerprint()

    def ranges(self, target_bytes: int) -> list[DocumentRange]:
        """The source's own."""
        return self.source.ranges(target_bytes)

    def read(self, start: Cursor, stop: Cursor | None = None) -> Iterator[tuple[Cursor, Document]]:
        """Yield the source's documents, each with the cursor right after it."""
        for cursor, document in self.source.read(start, stop):
            metadata = {**document.metadata, KEY: document.text}
            yield cursor, replace(document, metadata=metadata)


def take_original(document: Document) -> tuple[Document, str | None]:
    """The document as it would be, and its text as it came, None where that was not kept."""
    if KEY not in document.metadata:
        return document, None
    metadata = {key: value for key, value in document.metadata.items() if key != KEY}
    return replace(document, metadata=metadata), document.metadata[KEY]

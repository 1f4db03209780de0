"""Where text lives: the one Protocol every source of documents satisfies."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from jax_lm.types import Document


class Cursor(NamedTuple):
    """A position between two documents of a source; cursors compare in reading order."""

    file: int
    """Index of the file in the source's fixed order."""
    offset: int
    """Position inside the file; its unit is the source's own (a byte of a .jsonl file, say)."""


class DocumentRange(NamedTuple):
    """A contiguous run of documents, from ``start`` up to but not including ``stop``."""

    start: Cursor
    stop: Cursor


class DocumentSource(Protocol):
    """Documents in a fixed order, readable from any position; picklable, so workers can read it."""

    @property
    def name(self) -> str:
        """What the user wrote to name it, without secrets."""
        ...

    def fingerprint(self) -> str:
        """A hex digest that changes when the source's documents may have changed."""
        ...

    def ranges(self, target_bytes: int) -> list[DocumentRange]:
        """Cut the source into contiguous runs of about ``target_bytes`` bytes each.

        The cut depends only on the source and ``target_bytes``; the runs in order are the source.
        """
        ...

    def read(self, start: Cursor, stop: Cursor | None = None) -> Iterator[tuple[Cursor, Document]]:
        """Yield documents from ``start``, each with the cursor right after it.

        Raises:
            JaxLMError: a record is malformed; the message names the file and the line.
        """
        ...

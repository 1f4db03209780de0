"""Where text lives: the one Protocol every source of documents satisfies."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from jax_lm.errors import JaxLMError
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
    follows: bool = False
    """Its start is reached only by reading the range before it, as inside a compressed file:
    whoever reads both should read on from one to the other."""


class RejectedRecord(NamedTuple):
    """A record that could not be read, kept so that nothing is dropped silently."""

    file: str
    line: int
    """Counts from 1."""
    reason: str
    raw: str
    """The record as it stands in the file; bytes that are not UTF-8 appear as ``\\xNN``."""


class BadRecord(JaxLMError):
    """A malformed record; ``record`` says which."""

    def __init__(self, record: RejectedRecord):
        super().__init__(f"{record.file}:{record.line}: {record.reason}")
        self.record = record

    def __reduce__(self) -> tuple[type["BadRecord"], tuple[RejectedRecord]]:
        """Survive the way back from a worker process."""
        return type(self), (self.record,)


class DocumentSource(Protocol):
    """Documents in a fixed order, readable from any position; picklable, so workers can read it."""

    @property
    def name(self) -> str:
        """What the user wrote to name it, without secrets."""
        ...

    @property
    def rejects(self) -> list[RejectedRecord]:
        """What ``read`` skipped so far, where it was told to skip; the caller may clear it."""
        ...

    @property
    def dropped(self) -> Counter[str]:
        """How many documents ``read`` left out so far, by reason; the caller may clear it."""
        ...

    def fingerprint(self) -> str:
        """A hex digest that changes when the source's documents may have changed."""
        ...

    def ranges(self, target_bytes: int) -> list[DocumentRange]:
        """Cut the source into contiguous runs of about ``target_bytes`` bytes each.

        The cut depends only on the source and ``target_bytes``; the runs in order are the source.
        Sources of equal fingerprints are cut alike. Where cuts are not to be had otherwise, as in
        a compressed file, finding them reads the source once more than its documents are read.
        """
        ...

    def read(self, start: Cursor, stop: Cursor | None = None) -> Iterator[tuple[Cursor, Document]]:
        """Yield documents from ``start``, each with the cursor right after it.

        Raises:
            BadRecord: a record is malformed (a JaxLMError); it names the file and the line.
        """
        ...


class DocumentStore(DocumentSource, Protocol):
    """A source with random access by one integer, over any number of files or collections.

    Its cursors are ``Cursor(0, index)``. Safe to read from many threads, and after a fork.
    """

    def __len__(self) -> int:
        """Number of documents."""
        ...

    def __getitem__(self, index: int) -> Document:
        """Document ``index``, counting from 0.

        Raises:
            IndexError: the store has fewer documents.
        """
        ...

    def read_batch(self, indices: Sequence[int]) -> list[Document]:
        """The documents at ``indices``, in that order, in as few queries as can be."""
        ...


def iterate_texts(source: DocumentSource) -> Iterator[str]:
    """The text of every segment of a source, in order."""
    for _, document in source.read(Cursor(0, 0)):
        yield from (segment.text for segment in document.segments)


def checked_target(target_bytes: int) -> int:
    """The size of a range, for ``DocumentSource.ranges``.

    Raises:
        JaxLMError: it is below 1.
    """
    if target_bytes < 1:
        raise JaxLMError(f"a range of {target_bytes} bytes holds nothing; ask for 1 or more")
    return target_bytes

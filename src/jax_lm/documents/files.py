"""Files read one after another as one source of documents."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from jax_lm.documents.base import BadRecord, Cursor, DocumentRange, RejectedRecord
from jax_lm.documents.splitting import RawRecord
from jax_lm.errors import JaxLMError
from jax_lm.types import Document

OnBadRecord = Literal["stop", "skip"]


class FileReader(Protocol):
    """How files of one format become documents; its ``repr`` says every setting."""

    def boundary(self, path: Path, offset: int) -> int | None:
        """The first position between two records at or after ``offset``; None: the file's end."""
        ...

    def records(self, path: Path, name: str, start: int, stop: int | None) -> Iterator[RawRecord]:
        """The records that begin from ``start`` up to but not including ``stop``."""
        ...

    def document(self, raw: RawRecord) -> Document:
        """One record as a document.

        Raises:
            BadRecord: the record is malformed.
        """
        ...


class SourceFile(NamedTuple):
    """A file of a source."""

    path: Path
    name: str
    """Its name within the source, which does not change when the corpus moves."""
    reader: FileReader


@dataclass(frozen=True)
class FileSource:
    """Documents of files in a fixed order; a cursor's offset is a byte of a file."""

    name: str
    files: tuple[SourceFile, ...]
    on_bad_record: OnBadRecord = "stop"
    passed_over: tuple[str, ...] = ()
    """Files of the named directories that have another suffix and so are not read."""
    rejects: list[RejectedRecord] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)

    def fingerprint(self) -> str:
        """Hex sha256 over names, readers' settings, sizes and modification times."""
        digest = hashlib.sha256()
        for path, name, reader in self.files:
            status = path.stat()
            line = f"{name}\0{reader!r}\0{status.st_size}\0{status.st_mtime_ns}\n"
            digest.update(line.encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    def ranges(self, target_bytes: int) -> list[DocumentRange]:
        """Runs of about ``target_bytes`` bytes of file, cut between records.

        Raises:
            JaxLMError: ``target_bytes`` is below 1.
        """
        if target_bytes < 1:
            raise JaxLMError(f"a range of {target_bytes} bytes holds nothing; ask for 1 or more")
        cuts = [Cursor(0, 0), *self._cuts(target_bytes)]
        end = Cursor(len(self.files), 0)
        if cuts[-1] != end:
            cuts.append(end)
        return [DocumentRange(*pair) for pair in pairwise(cuts)]

    def _cuts(self, target_bytes: int) -> Iterator[Cursor]:
        pending = 0
        for index, (path, _, reader) in enumerate(self.files):
            size = path.stat().st_size
            start = 0
            while pending + size - start > target_bytes:
                cut = reader.boundary(path, start + target_bytes - pending)
                if cut is None:
                    break
                yield Cursor(index, cut)
                start, pending = cut, 0
            pending += size - start
            if pending >= target_bytes:
                yield Cursor(index + 1, 0)
                pending = 0

    def read(self, start: Cursor, stop: Cursor | None = None) -> Iterator[tuple[Cursor, Document]]:
        """Yield documents from ``start``, each with the cursor right after it.

        Raises:
            BadRecord: a record is malformed, unless the source skips those.
        """
        stop = Cursor(len(self.files), 0) if stop is None else stop
        for index in range(start.file, min(stop.file + 1, len(self.files))):
            path, name, reader = self.files[index]
            first = start.offset if index == start.file else 0
            last = stop.offset if index == stop.file else None
            for raw in reader.records(path, name, first, last):
                document = self._document(reader, raw)
                if document is not None:
                    yield _after(index, raw), document

    def _document(self, reader: FileReader, raw: RawRecord) -> Document | None:
        try:
            return reader.document(raw)
        except BadRecord as error:
            if self.on_bad_record == "stop":
                raise
            self.rejects.append(error.record)
            return None


def _after(index: int, raw: RawRecord) -> Cursor:
    return Cursor(index + 1, 0) if raw.stop is None else Cursor(index, raw.stop)

"""Files read one after another as one source of documents."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from jax_lm.documents.base import BadRecord, Cursor, DocumentRange, RejectedRecord, checked_target
from jax_lm.documents.files.decoding import BrokenRecord
from jax_lm.documents.files.splitting import Cuts
from jax_lm.documents.files.stored import DataFile
from jax_lm.documents.left_off import LeftOff
from jax_lm.types import Document

OnBadRecord = Literal["stop", "skip"]
REMEDY = "mend it, or leave such records out with --on-bad-record skip"


class Record(Protocol):
    """One record as its format found it."""

    @property
    def stop(self) -> int | None:
        """Position after the record; None: the record ends with its file."""
        ...


R = TypeVar("R", bound=Record)


class FileFormat(Protocol[R]):
    """How files of one format become documents; its ``repr`` says every setting."""

    def cuts(self, file: DataFile, room: int, target: int) -> Cuts:
        """Positions between records: the first ``room`` bytes on, the others ``target`` bytes."""
        ...

    def records(self, file: DataFile, start: int, stop: int | None) -> Iterator[R]:
        """The records that begin from ``start`` up to but not including ``stop``."""
        ...

    def document(self, record: R, /) -> Document:
        """One record as a document.

        Raises:
            BadRecord: the record is malformed.
        """
        ...


class SourceFile(NamedTuple):
    """A file of a source, and how it is read."""

    file: DataFile
    format: FileFormat[Any]


@dataclass(frozen=True)
class FileSource:
    """Documents of files in a fixed order.

    A cursor's offset is what the file's format counts: bytes once unpacked, rows of a table,
    tokens of a flat file of ids.
    """

    name: str
    files: tuple[SourceFile, ...]
    on_bad_record: OnBadRecord = "stop"
    passed_over: tuple[str, ...] = ()
    """Files of the named directories that are of another kind, or our own outputs: not read."""
    rejects: list[RejectedRecord] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    left_off: LeftOff[Iterator[Any]] = field(default_factory=LeftOff, compare=False, repr=False)

    def fingerprint(self) -> str:
        """Hex sha256 over names, formats' settings, sizes and modification times or etags.

        Whether a file has to be read from its start counts too: that decides which ranges follow.
        """
        digest = hashlib.sha256()
        for file, form in self.files:
            stored = file.stored
            kind = (file.compression, stored.seekable, form)
            parts = (file.name, kind, stored.size(), stored.stamp())
            digest.update((repr(parts) + "\n").encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    def ranges(self, target_bytes: int) -> list[DocumentRange]:
        """Runs of about ``target_bytes`` unpacked bytes, cut between records.

        Compressed files, .csv and .json are read through once to find the cuts: one time more
        than their documents are.

        Raises:
            JaxLMError: ``target_bytes`` is below 1.
        """
        checked_target(target_bytes)
        ranges: list[DocumentRange] = []
        start, follows = Cursor(0, 0), False
        for stop, next_follows in self._cuts(target_bytes):
            ranges.append(DocumentRange(start, stop, follows))
            start, follows = stop, next_follows
        end = Cursor(len(self.files), 0)
        if start != end:
            ranges.append(DocumentRange(start, end, follows))
        return ranges

    def _cuts(self, target_bytes: int) -> Iterator[tuple[Cursor, bool]]:
        pending = 0
        for index, (file, form) in enumerate(self.files):
            cuts = form.cuts(file, target_bytes - pending, target_bytes)
            num_cuts = 0
            while True:
                try:
                    cut = next(cuts)
                except StopIteration as end:
                    pending = end.value + (0 if num_cuts else pending)
                    break
                num_cuts += 1
                yield Cursor(index, cut.offset), cut.follows
            if pending >= target_bytes:
                yield Cursor(index + 1, 0), False
                pending = 0

    def read(self, start: Cursor, stop: Cursor | None = None) -> Iterator[tuple[Cursor, Document]]:
        """Yield documents from ``start``, each with the cursor right after it.

        Raises:
            BadRecord: a record is malformed, unless the source skips those.
            JaxLMError: a compressed file is cut short or corrupt.
        """
        stop = Cursor(len(self.files), 0) if stop is None else stop
        for index in range(start.file, min(stop.file + 1, len(self.files))):
            first = start.offset if index == start.file else 0
            last = stop.offset if index == stop.file else None
            if last == 0:
                return
            yield from self._read_on(index, first, last)

    def _read_on(
        self, index: int, first: int, last: int | None
    ) -> Iterator[tuple[Cursor, Document]]:
        """What is between two offsets of a file, going on with what the range before left open.

        Many a range is not reached otherwise without reading all before it: in a compressed file,
        or among rows of a table that are stored together.
        """
        file, form = self.files[index]
        stop = None if last is None else Cursor(index, last)
        records = self.left_off.take(Cursor(index, first)) or form.records(file, first, None)
        for record in records:
            after = _after(index, record)
            if stop is not None and after > stop:
                self.left_off.keep(stop, chain([record], records))
                return
            document = self._document(form, record)
            if document is not None:
                yield after, document
            if after == stop:
                self.left_off.keep(after, records)
                return

    def _document(self, form: FileFormat[Any], record: Record) -> Document | None:
        try:
            return form.document(record)
        except BadRecord as error:
            if self.on_bad_record == "skip":
                self.rejects.append(error.record)
                return None
            if not isinstance(error, BrokenRecord):
                raise
            reason = f"{error.record.reason}; {REMEDY}"
            raise BrokenRecord(error.record._replace(reason=reason)) from error


def _after(index: int, record: Record) -> Cursor:
    return Cursor(index + 1, 0) if record.stop is None else Cursor(index, record.stop)

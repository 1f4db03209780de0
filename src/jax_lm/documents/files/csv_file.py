"""``.csv``: a header row, then one record a row; quoted fields may hold newlines."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass

from jax_lm.documents.files.decoding import bad_record, broken_record, decode_utf8
from jax_lm.documents.files.line_numbers import LineNumbers
from jax_lm.documents.files.splitting import BLANK, Cuts, RawRecord, cuts_between
from jax_lm.documents.files.stored import DataFile
from jax_lm.documents.record_fields import RecordFields
from jax_lm.documents.records import RecordError
from jax_lm.errors import JaxLMError
from jax_lm.types import Document

LONGEST_FIELD = 1 << 28
"""Characters; a quote that never closes would otherwise take in a file of any size."""


@dataclass(frozen=True)
class CsvRow:
    """A row as it stands in the file."""

    raw: RawRecord
    header: tuple[str, ...]
    values: list[str] | None
    """None where the row is broken."""
    problem: str = ""

    @property
    def stop(self) -> int | None:
        """The byte after the row."""
        return self.raw.stop


@dataclass(frozen=True)
class CsvFormat:
    """Rows under a header, separated by commas (RFC 4180); their fields are texts."""

    fields: RecordFields

    def cuts(self, file: DataFile, room: int, target: int) -> Cuts:
        """Read the file once, for a newline may lie inside quotes, and cut it between rows."""
        stops = (row.stop or 0 for row in self.records(file, 0, None))
        return (yield from cuts_between(stops, file, room, target))

    def records(self, file: DataFile, start: int, stop: int | None) -> Iterator[CsvRow]:
        """The rows that begin from ``start`` up to ``stop`` and are not blank.

        Raises:
            JaxLMError: the file has no header that can be used.
        """
        # The limit is the module's, not a reader's; 128 KiB would refuse many a document.
        csv.field_size_limit(LONGEST_FIELD)
        header, body = _header(file)
        first = max(start, body)
        with LineNumbers(file) as numbers, file.open(first) as stream:
            rows = _Rows(stream, first)
            while stop is None or rows.offset < stop:
                begin = rows.offset
                values, problem = rows.take()
                if rows.offset == begin:
                    return
                if values or problem:
                    raw = RawRecord(file, numbers, begin, rows.offset, rows.data)
                    yield CsvRow(raw, header, values, problem)

    def document(self, row: CsvRow) -> Document:
        """A row as a document.

        Raises:
            BadRecord: broken quoting, too many or too few fields, or no text among them.
        """
        if row.values is None:
            decode_utf8(row.raw)  # says more, if that is what is wrong
            raise broken_record(row.raw, row.problem)
        if len(row.values) != len(row.header):
            raise broken_record(
                row.raw, f"{len(row.values)} fields, expected {len(row.header)} as in the header"
            )
        record = dict(zip(row.header, row.values, strict=True))
        try:
            return self.fields.document(record, row.raw.id, may_hold_surrogates=False)
        except RecordError as error:
            raise bad_record(row.raw, str(error)) from error


class _Rows:
    """Rows of a stream, each with its bytes."""

    def __init__(self, stream: io.BufferedReader, offset: int):
        self.offset = offset
        self._stream = stream
        self._lines: list[bytes] = []
        self._rows = csv.reader(self._texts(), strict=True)

    @property
    def data(self) -> bytes:
        """The bytes of the row taken last."""
        return b"".join(self._lines)

    def take(self) -> tuple[list[str] | None, str]:
        """The next row's fields, or what is wrong with it; at the end ``offset`` stands still."""
        self._lines.clear()
        try:
            return next(self._rows, []), ""
        except csv.Error as error:
            problem = f"a broken row ({error})"
        except UnicodeDecodeError:
            problem = "a row that is not UTF-8"
        # An error ends the generator below, and with it the reader.
        self._rows = csv.reader(self._texts(), strict=True)
        return None, problem

    def _texts(self) -> Iterator[str]:
        while line := self._stream.readline(LONGEST_FIELD):
            encoding = "utf-8" if self.offset else "utf-8-sig"  # a mark is no part of a name
            self.offset += len(line)
            self._lines.append(line)
            yield line.decode(encoding)


def _header(file: DataFile) -> tuple[tuple[str, ...], int]:
    """The names of the columns, and the byte after them."""
    with file.open() as stream:
        rows = _Rows(stream, 0)
        values, problem = rows.take()
        while values == [] and rows.data and not rows.data.strip(BLANK):
            values, problem = rows.take()
    if problem:
        raise JaxLMError(f"{file.shown}:1: the header is {problem}")
    names = tuple(name.strip() for name in values or ())
    if len(set(names)) < len(names) or "" in names:
        listed = ", ".join(map(repr, names))
        raise JaxLMError(
            f"{file.shown}:1: expected a header that names every column once, found {listed}"
        )
    return names, rows.offset

"""Rows of a table as documents: text fields, or ids of text that is already tokenised."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from jax_lm.documents.base import BadRecord, RejectedRecord
from jax_lm.documents.files.splitting import Cut, Cuts
from jax_lm.documents.files.stored import DataFile
from jax_lm.documents.files.table_columns import MASK, Columns, choose_columns
from jax_lm.documents.record_fields import RecordFields
from jax_lm.documents.records import RecordError
from jax_lm.types import Document, Segment

BATCH_BYTES = 1 << 23
MOST_ROWS = 4096


class RowGroup(NamedTuple):
    """Rows that are stored together."""

    num_rows: int
    num_bytes: int
    """Of the columns that are read, unpacked."""


class Table(Protocol):
    """An open table."""

    @property
    def schema(self) -> pa.Schema:
        """Names and types of its columns."""
        ...

    def groups(self, columns: list[str]) -> Iterator[RowGroup]:
        """Its rows in the groups they are stored in."""
        ...

    def batches(self, columns: list[str], start: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows from ``start`` on, a few at a time, each time with the first one's number."""
        ...


class TableOpener(Protocol):
    """Opens files of one table format."""

    def __call__(self, file: DataFile) -> AbstractContextManager[Table]:
        """Open a file as a table.

        Raises:
            JaxLMError: on entering or reading, where the file is no such table.
        """
        ...


@dataclass(frozen=True)
class TableRow:
    """One row."""

    file: DataFile
    row: int
    """Counts from 0."""
    value: Any
    """A dict, or the ids of a tokenised text."""
    problem: str = ""

    @property
    def stop(self) -> int:
        """The row after it."""
        return self.row + 1


@dataclass(frozen=True)
class TableFormat:
    """Rows of a table with named columns; a cursor's offset counts rows."""

    fields: RecordFields
    open_table: TableOpener

    def __repr__(self) -> str:
        return f"{type(self).__name__}(fields={self.fields!r})"

    def cuts(self, file: DataFile, room: int, target: int) -> Cuts:
        """Cut between groups of rows; inside one only where it alone is larger than a range."""
        start = position = first_row = 0  # the first two count bytes
        with self.open_table(file) as table:
            columns = choose_columns(table.schema, self.fields, file.shown)
            for group in table.groups(columns.names):
                if position - start >= room:
                    yield Cut(first_row, False)
                    start, room = position, target
                inside = _inside(group, room - (position - start), target)
                for row, num_bytes in inside:
                    yield Cut(first_row + row, True)
                    start, room = position + num_bytes, target
                first_row += group.num_rows
                position += group.num_bytes
        return position - start

    def records(self, file: DataFile, start: int, stop: int | None) -> Iterator[TableRow]:
        """The rows from ``start`` up to ``stop``; only the columns that are needed are read."""
        with self.open_table(file) as table:
            columns = choose_columns(table.schema, self.fields, file.shown)
            for first, batch in table.batches(columns.names, start):
                wanted = batch if stop is None else batch.slice(0, max(stop - first, 0))
                if not wanted.num_rows:
                    return
                for row, (value, problem) in enumerate(row_values(wanted, columns), first):
                    yield TableRow(file, row, value, problem)

    def document(self, row: TableRow) -> Document:
        """A row as a document.

        Raises:
            BadRecord: a missing value, a wrong type or text that is not Unicode.
        """
        try:
            return row_document(row.value, row.problem, f"{row.file.name}@{row.row}", self.fields)
        except RecordError as error:
            kept = RejectedRecord(row.file.shown, row.row + 1, f"row: {error}", repr(row.value))
            raise BadRecord(kept) from error


def row_document(value: Any, problem: str, identity: str, fields: RecordFields) -> Document:
    """What ``row_values`` gave as a document.

    Raises:
        RecordError: a missing value, a wrong type or text that is not Unicode.
    """
    if problem:
        raise RecordError(problem)
    if isinstance(value, np.ndarray):
        return Document((Segment("", ids=value),), identity)
    return fields.document(value, identity, may_hold_surrogates=False)


def row_values(batch: pa.RecordBatch, columns: Columns) -> Iterator[tuple[Any, str]]:
    """Each row's dict, or its ids; and what is wrong with it, if something is."""
    if columns.ids is not None:
        yield from _ids(batch, columns.ids)
        return
    try:
        rows = batch.to_pylist()
    except UnicodeDecodeError:
        for index in range(batch.num_rows):
            try:
                yield batch.slice(index, 1).to_pylist()[0], ""
            except UnicodeDecodeError as error:
                yield None, f"text that is not UTF-8 (byte 0x{error.object[error.start]:02x})"
        return
    for row in rows:
        yield row, ""


def rows_at_a_time(num_rows: int, num_bytes: int) -> int:
    """So many rows that they come to a few megabytes."""
    return max(1, min(MOST_ROWS, BATCH_BYTES * num_rows // max(num_bytes, 1)))


def _inside(group: RowGroup, room: int, target: int) -> Iterator[tuple[int, int]]:
    """Rows, and their bytes, at which a group larger than a range is cut."""
    if not group.num_rows or group.num_bytes <= max(room, target):
        return
    row_bytes = group.num_bytes / group.num_rows
    cut, last = float(max(room, 0)), 0
    while cut < group.num_bytes:
        row = max(last + 1, int(cut / row_bytes))
        if row >= group.num_rows:
            return
        yield row, int(row * row_bytes)
        last, cut = row, row * row_bytes + target


def _ids(batch: pa.RecordBatch, column: str) -> Iterator[tuple[Any, str]]:
    ids = batch.column(column)
    masks = batch.column(MASK) if MASK in batch.schema.names else None
    for index in range(batch.num_rows):
        if not ids[index].is_valid:
            yield None, f"no {column!r}"
            continue
        values = _integers(ids[index])
        if masks is not None and masks[index].is_valid:
            mask = _integers(masks[index])
            if len(mask) != len(values):
                yield None, f"{len(values)} {column!r} but {len(mask)} {MASK!r}"
                continue
            values = values[mask != 0]
        yield values, ""


def _integers(scalar: Any) -> np.ndarray:
    return np.asarray(scalar.values.to_numpy(zero_copy_only=False)).astype(np.int32)

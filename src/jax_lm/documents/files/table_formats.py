"""``.parquet`` and ``.arrow`` files opened as tables."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from jax_lm.documents.files.stored import DataFile, LocalFile
from jax_lm.documents.files.tables import RowGroup, Table, rows_at_a_time
from jax_lm.errors import JaxLMError

COLUMN_BUFFER = 1 << 20
"""Bytes of a column read at a time; without it a whole column chunk is."""
ARROW_FILE = b"ARROW1"


class ParquetTable:
    """An open Parquet file."""

    def __init__(self, parquet: Any):
        self._parquet = parquet
        self.schema: pa.Schema = parquet.schema_arrow

    def groups(self, columns: list[str]) -> Iterator[RowGroup]:
        """Row groups, with the unpacked bytes of the columns that are read."""
        metadata = self._parquet.metadata
        for index in range(metadata.num_row_groups):
            yield RowGroup(metadata.row_group(index).num_rows, self._num_bytes(index, columns))

    def batches(self, columns: list[str], start: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows from ``start`` on; row groups before it are not read."""
        first = 0
        for index in range(self._parquet.metadata.num_row_groups):
            num_rows = self._parquet.metadata.row_group(index).num_rows
            if first + num_rows > start:
                at_a_time = rows_at_a_time(num_rows, self._num_bytes(index, columns))
                batches = self._parquet.iter_batches(at_a_time, [index], columns, use_threads=False)
                yield from _from_row(batches, first, start)
            first += num_rows

    def _num_bytes(self, index: int, columns: list[str]) -> int:
        group = self._parquet.metadata.row_group(index)
        chunks = (group.column(number) for number in range(group.num_columns))
        return sum(
            chunk.total_uncompressed_size
            for chunk in chunks
            if chunk.path_in_schema.split(".")[0] in columns or chunk.path_in_schema in columns
        )


class ArrowTable:
    """An open Arrow IPC stream or file, as ``datasets`` writes them."""

    def __init__(self, reader: Any):
        self._reader = reader
        self.schema: pa.Schema = reader.schema

    def groups(self, columns: list[str]) -> Iterator[RowGroup]:
        """Record batches, with the bytes of the columns that are read."""
        for batch in self._all():
            yield RowGroup(batch.num_rows, sum(batch.column(name).nbytes for name in columns))

    def batches(self, columns: list[str], start: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows from ``start`` on."""
        first = 0
        for batch in self._all():
            if first + batch.num_rows > start:
                chosen = batch.select(columns)
                at_a_time = rows_at_a_time(chosen.num_rows, chosen.nbytes)
                yield from _from_row(_pieces(chosen, at_a_time), first, start)
            first += batch.num_rows

    def _all(self) -> Iterator[pa.RecordBatch]:
        if isinstance(self._reader, pa.ipc.RecordBatchStreamReader):
            yield from self._reader
            return
        for index in range(self._reader.num_record_batches):
            yield self._reader.get_batch(index)


@contextmanager
def open_parquet(file: DataFile) -> Iterator[Table]:
    """Open a Parquet file.

    Raises:
        JaxLMError: it is none, or a part of it cannot be read.
    """
    with file.open() as stream, _told(file, "Parquet"):
        place = str(file.stored.path) if isinstance(file.stored, LocalFile) else stream
        with pa.parquet.ParquetFile(place, buffer_size=COLUMN_BUFFER, pre_buffer=False) as parquet:
            yield ParquetTable(parquet)


@contextmanager
def open_arrow(file: DataFile) -> Iterator[Table]:
    """Open an Arrow IPC file or stream; a local one is mapped into memory.

    Raises:
        JaxLMError: it is none, or a part of it cannot be read.
    """
    with file.open() as stream, _told(file, "Arrow"):
        is_file = stream.peek(len(ARROW_FILE)).startswith(ARROW_FILE)
        place = _mapped(file, stream)
        opened = pa.ipc.open_file(place) if is_file else pa.ipc.open_stream(place)
        yield ArrowTable(opened)


def _mapped(file: DataFile, stream: io.BufferedReader) -> Any:
    if isinstance(file.stored, LocalFile):
        return pa.memory_map(str(file.stored.path))
    return stream


def _pieces(batch: pa.RecordBatch, at_a_time: int) -> Iterator[pa.RecordBatch]:
    for first in range(0, batch.num_rows, at_a_time):
        yield batch.slice(first, at_a_time)


def _from_row(
    batches: Iterator[pa.RecordBatch], first: int, start: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Leave out what comes before the row ``start``; ``first`` is the first batch's first row."""
    for batch in batches:
        before = min(max(start - first, 0), batch.num_rows)
        if before < batch.num_rows:
            yield first + before, batch.slice(before)
        first += batch.num_rows


@contextmanager
def _told(file: DataFile, kind: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        first_line = str(error).split("\n", 1)[0]
        raise JaxLMError(
            f"{file.shown}: cannot be read as {kind} ({first_line}); is it whole?"
        ) from error

"""Rows of a data set read from where it lies, in order only."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from jax_lm.documents.base import Cursor, DocumentRange, checked_target
from jax_lm.documents.files.table_columns import INPUT_IDS, choose_columns
from jax_lm.documents.huggingface.rows import RowSource
from jax_lm.types import Document

ID_BYTES = 2


class StreamedRows(RowSource):
    """Rows of an ``IterableDataset``; a later row is reached only past those before it."""

    def checked(self) -> "StreamedRows":
        """Itself, once it is known to be there.

        Raises:
            JaxLMError: there is no such data set, configuration, split or column.
        """
        self._stream()
        return self

    def ranges(self, target_bytes: int) -> list[DocumentRange]:
        """Read the stream through once and cut it after about ``target_bytes`` of text each.

        Raises:
            JaxLMError: ``target_bytes`` is below 1.
        """
        checked_target(target_bytes)
        ranges: list[DocumentRange] = []
        start, size, end = Cursor(0, 0), 0, Cursor(0, 0)
        known = len(self.rejects)
        for cursor, document in self.read(start):
            if size >= target_bytes:
                ranges.append(DocumentRange(start, end, bool(ranges)))
                start, size = end, 0
            size += _num_bytes(document)
            end = cursor
        del self.rejects[known:]  # whoever reads the ranges will meet them again
        return [*ranges, DocumentRange(start, Cursor(1, 0), bool(ranges))]

    def read(self, start: Cursor, stop: Cursor | None = None) -> Iterator[tuple[Cursor, Document]]:
        """Yield documents from ``start``, each with the cursor right after it.

        Raises:
            BadRecord: a row is malformed, unless the source skips those.
            JaxLMError: the stream breaks off.
        """
        if start.file:
            return
        end = None if stop is None or stop.file else stop.offset
        rows = self._left_off.take(start) or self._rows(start.offset)
        for number in self._counted(start.offset, end):
            found = next(rows, None)
            if found is None:
                return
            document = self._document(number, *found)
            if document is not None:
                yield Cursor(0, number + 1), document
        if end is not None:
            self._left_off.keep(Cursor(0, end), rows)

    def _rows(self, first: int) -> Iterator[tuple[Any, str]]:
        with self.dataset.told():
            rows = self._stream()
            for row in rows.skip(first) if first else rows:
                yield self._value(row), ""

    def _stream(self) -> Any:
        rows = self.dataset.load()
        if rows.features is None:
            return rows
        columns = choose_columns(rows.features.arrow_schema, self.fields, self.name)
        return rows.select_columns(columns.names)

    def _value(self, row: dict[str, Any]) -> Any:
        if INPUT_IDS in row and not self.fields.recognises(row):
            return np.asarray(row[INPUT_IDS], np.int32)
        return row

    def _counted(self, first: int, end: int | None) -> Iterator[int]:
        number = first
        while end is None or number < end:
            yield number
            number += 1


def _num_bytes(document: Document) -> int:
    texts = len(document.text.encode())
    return texts + sum(ID_BYTES * len(s.ids) for s in document.segments if s.ids is not None)

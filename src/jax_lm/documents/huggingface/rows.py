"""Rows of a data set that lies on this machine: read in order or by index."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

from jax_lm.documents.base import BadRecord, Cursor, DocumentRange, RejectedRecord, checked_target
from jax_lm.documents.files.table_columns import Columns, choose_columns
from jax_lm.documents.files.tables import row_document, row_values, rows_at_a_time
from jax_lm.documents.huggingface.loading import HfDataset
from jax_lm.documents.left_off import LeftOff
from jax_lm.documents.record_fields import RecordFields
from jax_lm.documents.records import RecordError
from jax_lm.types import Document

OnBadRecord = Literal["stop", "skip"]


class RowSource:
    """Documents of a data set; cursors are ``Cursor(0, row)``."""

    def __init__(self, dataset: HfDataset, fields: RecordFields, on_bad_record: OnBadRecord):
        self.dataset = dataset
        self.fields = fields
        self.on_bad_record = on_bad_record
        self.rejects: list[RejectedRecord] = []
        self.dropped: Counter[str] = Counter()
        self._left_off: LeftOff[Iterator[tuple[Any, str]]] = LeftOff()

    def __getstate__(self) -> dict[str, Any]:
        """Without what is open: a worker opens its own."""
        return {name: value for name, value in vars(self).items() if name != "_opened"}

    @property
    def name(self) -> str:
        """The SPEC."""
        return self.dataset.shown

    def fingerprint(self) -> str:
        """Changes with the data set, the split, the fields and the way in which it is read.

        Rows of this machine are cut by their size on disk, streamed ones by their text.
        """
        text = f"{type(self).__name__} {self.dataset.fingerprint()} {self.fields!r}"
        return hashlib.sha256(text.encode()).hexdigest()

    def _document(self, row: int, value: Any, problem: str) -> Document | None:
        try:
            return self._must_be_document(row, value, problem)
        except BadRecord as error:
            if self.on_bad_record == "stop":
                raise
            self.rejects.append(error.record)
            return None

    def _must_be_document(self, row: int, value: Any, problem: str) -> Document:
        try:
            return row_document(value, problem, f"{self.dataset.name}@{row}", self.fields)
        except RecordError as error:
            kept = RejectedRecord(self.name, row + 1, f"row: {error}", repr(value))
            raise BadRecord(kept) from error


class StoredRows(RowSource):
    """Rows in Arrow files of this machine, with random access by row."""

    @cached_property
    def _opened(self) -> tuple[Any, Columns]:
        """The open data set with the columns that are needed."""
        loaded = self.dataset.load()
        columns = choose_columns(loaded.data.schema, self.fields, self.name)
        return loaded.select_columns(columns.names).with_format("arrow"), columns

    @property
    def rows(self) -> Any:
        """The open data set; its slices are Arrow tables."""
        return self._opened[0]

    def checked(self) -> "StoredRows":
        """Itself, once it is known to be there.

        Raises:
            JaxLMError: there is no such data set, configuration, split or column.
        """
        len(self)
        return self

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Document:
        if not 0 <= index < len(self):
            raise IndexError(f"{self.name}: there is no row {index} of {len(self)}")
        return self.read_batch([index])[0]

    def read_batch(self, indices: Sequence[int]) -> list[Document]:
        """The documents at ``indices``, in that order.

        Raises:
            BadRecord: one of the rows is malformed.
        """
        return [
            self._must_be_document(row, value, problem)
            for row, (value, problem) in zip(
                indices, self._values(self.rows[list(indices)]), strict=True
            )
        ]

    def ranges(self, target_bytes: int) -> list[DocumentRange]:
        """Runs of rows of about ``target_bytes`` on average.

        Raises:
            JaxLMError: ``target_bytes`` is below 1.
        """
        checked_target(target_bytes)
        size = len(self)
        step = max(1, target_bytes * size // max(self.rows.data.nbytes, 1))
        cuts = [*range(0, size, step), size]
        return [DocumentRange(Cursor(0, start), Cursor(0, stop)) for start, stop in pairwise(cuts)]

    def read(self, start: Cursor, stop: Cursor | None = None) -> Iterator[tuple[Cursor, Document]]:
        """Yield documents from ``start``, each with the cursor right after it.

        Raises:
            BadRecord: a row is malformed, unless the source skips those.
        """
        size = len(self)
        end = size if stop is None else size if stop.file else min(stop.offset, size)
        begin = size if start.file else start.offset
        at_a_time = rows_at_a_time(size, self.rows.data.nbytes)
        for first in range(begin, end, at_a_time):
            table = self.rows[first : min(first + at_a_time, end)]
            for row, (value, problem) in enumerate(self._values(table), first):
                document = self._document(row, value, problem)
                if document is not None:
                    yield Cursor(0, row + 1), document

    def _values(self, table: Any) -> Iterator[tuple[Any, str]]:
        for batch in table.to_batches():
            yield from row_values(batch, self._opened[1])

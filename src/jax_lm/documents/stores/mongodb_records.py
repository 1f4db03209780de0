"""A record of a MongoDB collection <-> a document.

``form`` is the text as it came, ``filt_text`` the cleaned one, and ``q`` and ``a`` are a question
and its answer. What ``documents build`` writes has besides ``source_id``, ``subset``, ``metadata``
and, for anything but one piece of plain text, ``segments``: ``[text, weight, markup]`` or
``[text, weight, markup, dtype, ids]``.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jax_lm.documents.base import BadRecord, RejectedRecord
from jax_lm.documents.conversations.templates import DEFAULT, ChatTemplate
from jax_lm.documents.records import (
    RecordError,
    record_metadata,
    record_segments,
    record_subset,
)
from jax_lm.documents.stores.mongodb_indices import IDX
from jax_lm.documents.stores.payload import json_bytes
from jax_lm.types import Document, Segment

TEXTS = ("filt_text", "form")
"""Where the text is, the first that is there; else whatever a record of any kind may hold."""
SOURCE_ID = "source_id"
ORIGINAL = "form"
CLEANED = "filt_text"


@dataclass(frozen=True)
class RecordReader:
    """How records of one address become documents; its ``repr`` says every setting."""

    place: str
    """Server and database, for errors."""
    text: str | None = None
    """Dotted path of the text, None for the fields that are known by name."""
    subset: str | None = None
    """Dotted path of the subset's name, None for what the record says, else the collection's."""
    template: ChatTemplate = DEFAULT

    def document(self, record: Mapping[str, Any], collection: str) -> Document:
        """A record as a document.

        Raises:
            BadRecord: it holds no text where text is expected; it names collection and ``idx``.
        """
        try:
            segments, text_field = self._segments(record)
            subset = self._subset(record, collection)
            metadata = _metadata(record, text_field)
        except RecordError as error:
            number = record.get(IDX)
            file = f"{self.place}: collection {collection!r}, {IDX}"
            raw = json_bytes(dict(record)).decode("utf-8")
            line = number if isinstance(number, int) else 0
            raise BadRecord(RejectedRecord(file, line, str(error), raw)) from error
        source_id = record.get(SOURCE_ID)
        if not isinstance(source_id, str):
            source_id = f"{collection}:{record.get(IDX)}"
        return Document(segments, source_id, subset, metadata)

    def _segments(self, record: Mapping[str, Any]) -> tuple[tuple[Segment, ...], str | None]:
        if self.text is None and SOURCE_ID in record and "segments" in record:
            return tuple(_segment(*fields) for fields in record["segments"]), None
        named = next((name for name in TEXTS if record.get(name) is not None), None)
        field = self.text or named
        return record_segments(record, field, self.template), field

    def _subset(self, record: Mapping[str, Any], collection: str) -> str:
        if self.subset is not None:
            return record_subset(record, self.subset)
        if SOURCE_ID in record:
            return str(record.get("subset") or "")
        return record_subset(record, None) or collection


def encode_record(document: Document, original: str | None, number: int) -> dict[str, Any]:
    """A document as the record of a collection.

    Args:
        document: its text goes to ``form``, or to ``filt_text`` where it has been cleaned.
        number: its ``idx``.
        original: the text before cleaning, None where nothing was cleaned.
    """
    record: dict[str, Any] = {IDX: number}
    if original is None:
        record[ORIGINAL] = document.text
    else:
        record |= {ORIGINAL: original, CLEANED: document.text}
    record |= {SOURCE_ID: document.id, "subset": document.subset}
    if document.metadata:
        record["metadata"] = json.loads(json_bytes(dict(document.metadata)))
    plain = len(document.segments) == 1 and document.segments[0] == Segment(document.text)
    if not plain or document.segments[0].ids is not None:
        record["segments"] = [_fields(segment) for segment in document.segments]
    return record


def _metadata(record: Mapping[str, Any], text_field: str | None) -> Mapping[str, Any]:
    if SOURCE_ID in record:
        return dict(record.get("metadata") or {})
    hidden = {"_id", IDX, *TEXTS}
    found = record_metadata(record, text_field)
    return {key: value for key, value in found.items() if key not in hidden}


def _fields(segment: Segment) -> list[Any]:
    fields: list[Any] = [segment.text, float(segment.weight), segment.markup]
    if segment.ids is not None:
        little = segment.ids.astype(segment.ids.dtype.newbyteorder("<"), copy=False)
        fields += [little.dtype.str, little.tobytes()]
    return fields


def _segment(text: str, weight: float, markup: bool, *ready: Any) -> Segment:
    ids = np.frombuffer(ready[1], np.dtype(ready[0])) if ready else None
    return Segment(text, weight, markup, ids)

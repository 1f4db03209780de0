"""``.jsonl``: one JSON record a line."""

import json
from dataclasses import dataclass

from jax_lm.documents.decoding import bad_record, decode_utf8
from jax_lm.documents.records import (
    RecordError,
    record_metadata,
    record_segments,
    record_subset,
)
from jax_lm.documents.splitting import RawRecord, lines, next_line
from jax_lm.types import Document, Segment

SURROGATE_ESCAPES = (b"\\ud", b"\\uD")


@dataclass(frozen=True)
class JsonlReader:
    """Each line that is not blank is a record; its id is ``FILE@BYTE_OFFSET``."""

    text: str | None = None
    """Dotted path of the text, None for the fields that are known by name."""
    subset: str | None = None
    """Dotted path of the subset's name, None for ``meta.pile_set_name`` where present."""

    boundary = staticmethod(next_line)
    records = staticmethod(lines)

    def document(self, raw: RawRecord) -> Document:
        """The record as a document.

        Raises:
            BadRecord: broken JSON, a missing field, a wrong type or text that is not Unicode.
        """
        try:
            record = _parse(decode_utf8(raw))
            segments = record_segments(record, self.text)
            subset = record_subset(record, self.subset)
            if any(escape in raw.data for escape in SURROGATE_ESCAPES):
                _refuse_lone_surrogates(segments, subset)
        except RecordError as error:
            raise bad_record(raw, str(error)) from error
        metadata = record_metadata(record, self.text)
        return Document(segments, f"{raw.name}@{raw.offset}", subset, metadata)


def _parse(text: str) -> object:
    try:
        record: object = json.loads(text)
    except json.JSONDecodeError as error:
        what = (error.msg[0].lower() + error.msg[1:]).removesuffix(" at")
        raise RecordError(f"broken JSON, {what} at character {error.pos + 1}") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"JSON that cannot be read ({error})") from error
    return record


def _refuse_lone_surrogates(segments: tuple[Segment, ...], subset: str) -> None:
    for text in (*(segment.text for segment in segments), subset):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            code = ord(text[error.start])
            raise RecordError(
                f"half a surrogate pair, \\u{code:04x}, at character {error.start + 1} of the "
                "text; write both halves, or the character itself"
            ) from error

"""``.jsonl``: one JSON record a line."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from jax_lm.documents.files.decoding import bad_record, broken_record, decode_utf8
from jax_lm.documents.files.splitting import RawRecord, line_cuts, lines
from jax_lm.documents.record_fields import RecordFields
from jax_lm.documents.records import RecordError
from jax_lm.types import Document


def _no_strict_parser(data: bytes) -> object:
    raise ValueError("there is none")


try:  # several times as fast; it refuses all that is not Unicode, without saying where
    import orjson

    parse_strictly: Callable[[bytes], object] = orjson.loads
except ImportError:
    parse_strictly = _no_strict_parser

ESCAPE = b"\\u"
SURROGATE_ESCAPES = (b"\\ud", b"\\uD")


@dataclass(frozen=True)
class JsonlFormat:
    """Each line that is not blank is a record; its id is ``FILE@BYTE_OFFSET``."""

    fields: RecordFields

    cuts = staticmethod(line_cuts)
    records = staticmethod(lines)

    def document(self, raw: RawRecord) -> Document:
        """The record as a document.

        Raises:
            BadRecord: broken JSON, a missing field, a wrong type or text that is not Unicode.
        """
        try:
            record, suspect = parse_strictly(raw.data), False
        except ValueError:
            record, suspect = self._parse(raw)
        try:
            return self.fields.document(record, raw.id, suspect)
        except RecordError as error:
            raise bad_record(raw, str(error)) from error

    def _parse(self, raw: RawRecord) -> tuple[object, bool]:
        """A record, and whether it may hold halves of surrogate pairs; says what is wrong."""
        text = decode_utf8(raw)
        try:
            record: object = json.loads(text)
        except json.JSONDecodeError as error:
            raise broken_record(raw, broken_json(error)) from error
        except (ValueError, RecursionError) as error:
            raise broken_record(raw, f"JSON that cannot be read ({error})") from error
        suspect = ESCAPE in raw.data and any(map(raw.data.__contains__, SURROGATE_ESCAPES))
        return record, suspect


def broken_json(error: json.JSONDecodeError, skipped: int = 0) -> str:
    """What is wrong with a JSON text, at which of its characters after the first ``skipped``."""
    what = (error.msg[0].lower() + error.msg[1:]).removesuffix(" at")
    return f"broken JSON, {what} at character {error.pos + 1 - skipped}"

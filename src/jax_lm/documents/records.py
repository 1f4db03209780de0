"""One record, a line of JSON or a row of a table -> the segments of a document and what it says.

Where a record has several of the shapes that are known by name, the first in this order counts:
``text``; ``in_text`` and ``out_text``; ``messages``; ShareGPT's ``conversations``; questions with
answers; instructions.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from jax_lm.documents.conversations.messages import Message, is_messages, read_messages
from jax_lm.documents.conversations.rendering import render_conversation
from jax_lm.documents.conversations.templates import DEFAULT, ChatTemplate
from jax_lm.documents.malformed import RecordError, found, kind
from jax_lm.documents.turns import TURN_FIELDS, two_turns
from jax_lm.documents.weighted_pairs import weighted_pairs
from jax_lm.errors import nearest
from jax_lm.types import Segment

__all__ = ["RecordError", "field_value", "record_metadata", "record_segments", "record_subset"]

EXPECTED = (
    "`text`, or `in_text` and `out_text`, or `messages`, or `conversations`, or a question and "
    "its answer, or an instruction and its output, or a list of [text, weight] pairs"
)
PILE_SUBSET = "meta.pile_set_name"
PAIRS = (("in_text", "out_text"), ("prompt", "completion"))
CONVERSATIONS = ("messages", "conversations", "conversation")


def record_segments(
    record: object, text_field: str | None, template: ChatTemplate = DEFAULT
) -> tuple[Segment, ...]:
    """The text of a record as weighted segments.

    Args:
        record: what the JSON line holds.
        text_field: dotted path of the text, of weighted pairs or of messages; None for the fields
            that are known by name.
        template: how a conversation becomes text.

    Raises:
        RecordError: a field is missing or has another type, or the template refuses it.
    """
    if isinstance(record, list):
        return _segments(record, "the record", template)
    if not isinstance(record, Mapping):
        raise RecordError(f"expected a JSON object or list, found {kind(record)}")
    if text_field is not None:
        return _segments(field_value(record, text_field), f"field {text_field!r}", template)
    if "text" in record:
        return _segments(record["text"], "field 'text'", template)
    fields = _fields(record)
    if fields in PAIRS:
        prompt, answer = (_string(record[name], f"field {name!r}") for name in fields)
        return Segment(prompt, 0.0), Segment(answer, 1.0)
    return render_conversation(_messages(record, fields), template)


def record_subset(record: object, subset_field: str | None) -> str:
    """Name of the part of the corpus a record belongs to, empty where it names none.

    Raises:
        RecordError: ``subset_field`` is given and missing, or is neither text nor a number.
    """
    if subset_field is None:
        meta = record.get("meta") if isinstance(record, Mapping) else None
        name = meta.get("pile_set_name") if isinstance(meta, Mapping) else None
        return name if isinstance(name, str) else ""
    value = field_value(record, subset_field)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise RecordError(f"field {subset_field!r} should name a subset, found {kind(value)}")
    return str(value)


def record_metadata(record: object, text_field: str | None) -> Mapping[str, Any]:
    """The fields of a record that hold no text of the document."""
    if not isinstance(record, Mapping):
        return {}
    if text_field is not None:
        texts: Sequence[str] = (text_field,)
    else:
        texts = ("text",) if "text" in record else _fields(record)
    return {key: value for key, value in record.items() if key not in texts}


def field_value(record: object, path: str) -> Any:
    """The value at a dotted path, such as ``meta.pile_set_name``.

    Raises:
        RecordError: there is no such field; the fields there are are named.
    """
    if isinstance(record, Mapping) and path in record:
        return record[path]
    value = record
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            close = nearest(path, record) if isinstance(record, Mapping) else ""
            raise RecordError(f"no field {path!r}; {found(record)}{close}")
        value = value[name]
    return value


def _fields(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields that make the record a document, when ``text`` is not among them.

    Raises:
        RecordError: there are none that are known by name.
    """
    for fields in (*PAIRS, *((name,) for name in CONVERSATIONS), *TURN_FIELDS):
        if all(name in record for name in fields):
            return fields
    remedy = " (name the field with ?text=FIELD after the SPEC)"
    raise RecordError(f"expected {EXPECTED}; {found(record)}{remedy}")


def _messages(record: Mapping[str, Any], fields: tuple[str, ...]) -> Sequence[Message]:
    if fields[0] in CONVERSATIONS:
        (name,) = fields
        return read_messages(record[name], f"field {name!r}", record.get("system"))
    return two_turns(record, fields)


def _segments(value: object, where: str, template: ChatTemplate) -> tuple[Segment, ...]:
    if isinstance(value, str):  # by far the most common, and asked for every record
        return (Segment(value),)
    if is_messages(value):
        return render_conversation(read_messages(value, where), template)
    if isinstance(value, list):
        return weighted_pairs(value, where)
    return (Segment(_string(value, where)),)


def _string(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise RecordError(f"{where} should be text, found {kind(value)}")
    return value

"""One JSON record -> the segments, subset and metadata of a document."""

import math
from collections.abc import Mapping
from typing import Any

from jax_lm.errors import nearest
from jax_lm.types import Segment

EXPECTED = "`text`, or `in_text` and `out_text`, or a list of [text, weight] pairs"
PILE_SUBSET = "meta.pile_set_name"
TEXT_FIELDS = ("text", "in_text", "out_text")


class RecordError(Exception):
    """A record is not what was expected; the message completes ``FILE:LINE: ``."""


def record_segments(record: object, text_field: str | None) -> tuple[Segment, ...]:
    """The text of a record as weighted segments.

    Args:
        record: what the JSON line holds.
        text_field: dotted path of the text, or None for the fields that are known by name.

    Raises:
        RecordError: a field is missing or has another type.
    """
    if isinstance(record, list):
        return _pairs(record, "the record")
    if not isinstance(record, dict):
        raise RecordError(f"expected a JSON object or list, found {_kind(record)}")
    if text_field is not None:
        return _segments(field_value(record, text_field), text_field)
    if "text" in record:
        return _segments(record["text"], "text")
    if "in_text" in record and "out_text" in record:
        prompt, answer = (_string(record[name], name) for name in ("in_text", "out_text"))
        return Segment(prompt, 0.0), Segment(answer, 1.0)
    raise RecordError(f"expected {EXPECTED}; {_found(record)}{_remedy(record)}")


def record_subset(record: object, subset_field: str | None) -> str:
    """Name of the part of the corpus a record belongs to, empty where it names none.

    Raises:
        RecordError: ``subset_field`` is given and missing, or is neither text nor a number.
    """
    if subset_field is None:
        meta = record.get("meta") if isinstance(record, dict) else None
        name = meta.get("pile_set_name") if isinstance(meta, dict) else None
        return name if isinstance(name, str) else ""
    value = field_value(record, subset_field)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise RecordError(f"field {subset_field!r} should name a subset, found {_kind(value)}")
    return str(value)


def record_metadata(record: object, text_field: str | None) -> Mapping[str, Any]:
    """The fields of a record that hold no text of the document."""
    if not isinstance(record, dict):
        return {}
    texts = TEXT_FIELDS if text_field is None else (text_field,)
    return {key: value for key, value in record.items() if key not in texts}


def field_value(record: object, path: str) -> Any:
    """The value at a dotted path, such as ``meta.pile_set_name``.

    Raises:
        RecordError: there is no such field; the fields there are are named.
    """
    if isinstance(record, dict) and path in record:
        return record[path]
    value = record
    for name in path.split("."):
        if not isinstance(value, dict) or name not in value:
            close = nearest(path, record) if isinstance(record, dict) else ""
            raise RecordError(f"no field {path!r}; {_found(record)}{close}")
        value = value[name]
    return value


def _segments(value: object, field: str) -> tuple[Segment, ...]:
    if isinstance(value, list):
        return _pairs(value, f"field {field!r}")
    return (Segment(_string(value, field)),)


def _pairs(items: list[Any], where: str) -> tuple[Segment, ...]:
    return tuple(_pair(item, f"item {index} of {where}") for index, item in enumerate(items))


def _pair(item: object, where: str) -> Segment:
    if not isinstance(item, list) or len(item) != 2 or not isinstance(item[0], str):
        raise RecordError(f"{where} should be a [text, weight] pair, found {_kind(item)}")
    text, weight = item
    is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
    if not is_number or not math.isfinite(weight) or weight < 0:
        raise RecordError(f"{where} has weight {weight!r}; expected a finite number, 0 or more")
    return Segment(text, float(weight))


def _string(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise RecordError(f"field {field!r} should be text, found {_kind(value)}")
    return value


def _found(record: object) -> str:
    if not isinstance(record, dict):
        return f"found {_kind(record)}"
    return "found " + (", ".join(map(repr, record)) or "no field at all")


def _remedy(record: Mapping[str, Any]) -> str:
    if "messages" in record:
        return " (conversations in `messages` are not read by this version)"
    return " (name the field with ?text=FIELD after the SPEC)"


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "text", bool: "a truth value"}
    kinds |= {int: "a number", float: "a number", type(None): "null"}
    return kinds[type(value)]

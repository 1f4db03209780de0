"""What is wrong with a record, as a sentence that a file and a line are put before."""

from collections.abc import Mapping


class RecordError(Exception):
    """A record is not what was expected; the message completes ``FILE:LINE: ``."""


def kind(value: object) -> str:
    """What a JSON value is, in words."""
    if isinstance(value, Mapping):
        return "an object"
    if value is None:
        return "null"
    names = {list: "a list", tuple: "a list", str: "text", bool: "a truth value"}
    names |= {int: "a number", float: "a number"}
    return names.get(type(value), type(value).__name__)


def found(record: object) -> str:
    """``found`` and the fields of a record, or what it is instead of a record."""
    if not isinstance(record, Mapping):
        return f"found {kind(record)}"
    return "found " + (", ".join(map(repr, record)) or "no field at all")

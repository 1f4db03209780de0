"""The columns of a table that its documents need."""

from typing import Any, NamedTuple

import pyarrow as pa

from jax_lm.documents.record_fields import RecordFields
from jax_lm.errors import JaxLMError, nearest

BESIDE = ("meta", "system", "input")
"""Read with the text where present: subset and parts of a conversation."""
INPUT_IDS, MASK = "input_ids", "attention_mask"


class Columns(NamedTuple):
    """What to read."""

    names: list[str]
    ids: str | None
    """The column of ids, if there is no text."""


def choose_columns(schema: pa.Schema, fields: RecordFields, shown: str) -> Columns:
    """Choose by the fields the user named, else by the names that are known.

    A table without text but with ``input_ids`` is taken as already tokenised.

    Raises:
        JaxLMError: there is no such column; those there are are named.
    """
    beside = [name for name in BESIDE if name in schema.names]
    if fields.subset is not None:
        beside.append(_column(schema, fields.subset, shown))
    if fields.text is not None:
        text = _column(schema, fields.text, shown)
        return Columns(_in_order(schema, [text, *beside]), None)
    if text_columns := fields.text_fields(schema.names):
        return Columns(_in_order(schema, [*text_columns, *beside]), None)
    if INPUT_IDS in schema.names:
        return _ids(schema, shown)
    raise JaxLMError(
        f"{shown}: no column of text; found {_listed(schema)} (name it with ?text=COLUMN after "
        "the SPEC)"
    )


def _ids(schema: pa.Schema, shown: str) -> Columns:
    kind = schema.field(INPUT_IDS).type
    if not _holds_ids(kind):
        raise JaxLMError(f"{shown}: column {INPUT_IDS!r} holds {kind}, expected lists of integers")
    return Columns([name for name in (INPUT_IDS, MASK) if name in schema.names], INPUT_IDS)


def _column(schema: pa.Schema, path: str, shown: str) -> str:
    for name in (path, path.partition(".")[0]):
        if name in schema.names:
            return name
    raise JaxLMError(
        f"{shown}: no column {path!r}; found {_listed(schema)}{nearest(path, schema.names)}"
    )


def _holds_ids(kind: Any) -> bool:
    is_list = (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
    return bool(is_list and pa.types.is_integer(kind.value_type))


def _in_order(schema: pa.Schema, names: list[str]) -> list[str]:
    return [name for name in schema.names if name in names]


def _listed(schema: pa.Schema) -> str:
    return ", ".join(map(repr, schema.names)) or "no column at all"

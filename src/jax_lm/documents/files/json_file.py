"""``.json``: a list of records, a list under a key of an object, or records one after another."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jax_lm.documents.files.decoding import bad_record
from jax_lm.documents.files.json_text import JsonText, JsonValue
from jax_lm.documents.files.splitting import Cuts, cuts_between
from jax_lm.documents.files.stored import DataFile
from jax_lm.documents.record_fields import RecordFields
from jax_lm.documents.records import RecordError
from jax_lm.types import Document


@dataclass(frozen=True)
class JsonFormat:
    """Records of a JSON file, read as a stream; a cursor's offset is a byte between records.

    The file holds ``[record, ...]``; or an object with such a list under one of its keys, as
    ``{"data": [...]}``; or records one after another, as JSON lines have them. An object that
    itself would be a record is one, whatever lists it holds.
    """

    fields: RecordFields
    key: str | None = None
    """Key of the list of records, where an object has several."""

    def cuts(self, file: DataFile, room: int, target: int) -> Cuts:
        """Read the file once and cut it between records."""
        stops = (record.stop or 0 for record in self.records(file, 0, None))
        return (yield from cuts_between(stops, file, room, target))

    def records(self, file: DataFile, start: int, stop: int | None) -> Iterator[JsonValue]:
        """The records that begin from ``start`` up to ``stop``.

        Raises:
            BadRecord: the JSON is broken; what follows cannot be told apart, so it is not skipped.
        """
        with JsonText(file, start) as text:
            for record in self._values(text, start):
                if stop is not None and record.raw.offset >= stop:
                    return
                yield record

    def document(self, record: JsonValue) -> Document:
        """One record as a document.

        Raises:
            BadRecord: a missing field, a wrong type or text that is not Unicode.
        """
        raw, value = record
        try:
            return self.fields.document(value, raw.id)
        except RecordError as error:
            raise bad_record(raw, str(error)) from error

    def _values(self, text: JsonText, start: int) -> Iterator[JsonValue]:
        is_inside = start > 0 and text.peek() in (",", "]")
        if is_inside:
            yield from _elements(text)
            if text.peek() in (",", "}"):
                yield from self._members(text, inside=True)
        # An object behind a record, as at every other position, is a record too.
        behind_record = start > 0 and not is_inside and self.key is None
        while mark := text.peek():
            if mark == "[":
                yield from _elements(text)
            elif mark == "{" and not (behind_record or self._is_record(text)):
                yield from self._members(text)
            else:
                yield text.value()
                behind_record = self.key is None

    def _is_record(self, text: JsonText) -> bool:
        """Whether an object is a record itself, rather than a box with a list of them."""
        value = None if self.key is not None else text.whole_value()
        if not isinstance(value, dict):
            return False
        is_box = any(map(_is_list_of_records, value.values()))
        return not is_box or self.fields.recognises(value)

    def _members(self, text: JsonText, inside: bool = False) -> Iterator[JsonValue]:
        """The records of an object's list; without one, the object itself is the record."""
        begin = text.offset
        lists = [self.key or "another"] if inside else []
        members: dict[str, Any] = {}
        for name in _names(text, inside):
            if not self._is_box(text, name, members):
                members[name] = text.value().value
                continue
            if lists and self.key is None:
                text.refuse(
                    f"a second list of records, {name!r}; say which to read, as {name!r} "
                    f"in ?records={name}"
                )
            lists.append(name)
            records = _elements(text)
            yield from records if self.key in (None, name) else _passed_over(records)
        if self.key is not None and self.key not in lists:
            found = ", ".join(map(repr, [*lists, *members])) or "nothing"
            text.refuse(f"no list of records under {self.key!r} in the object; found {found}")
        if not lists:
            yield JsonValue(text.raw(json.dumps(members).encode(), begin), members)
        elif self.key is None and (names := self.fields.text_fields(members)):
            text.refuse(
                f"a long object with a list of records and behind it a text of its own, "
                f"{names[0]!r}; read the list alone with ?records=KEY, or write the objects into "
                "a .jsonl file"
            )

    def _is_box(self, text: JsonText, name: str, members: dict[str, Any]) -> bool:
        if self.key is not None:
            return text.peek() == "["
        return not self.fields.recognises([*members, name]) and text.begins_list_of_records()


def _elements(text: JsonText) -> Iterator[JsonValue]:
    """What is left of a list, from its beginning or from behind one of its elements."""
    if text.peek() == "[":
        text.take("[")
        if text.peek() == "]":
            text.take("]")
            return
        yield text.value()
    while text.take(",]") == ",":
        yield text.value()


def _names(text: JsonText, inside: bool) -> Iterator[str]:
    """The keys of an object; after each, its value has to be taken."""
    if not inside:
        text.take("{")
        if text.peek() == "}":
            text.take("}")
            return
        yield _name(text)
    while text.take(",}") == ",":
        yield _name(text)


def _name(text: JsonText) -> str:
    name = text.value().value
    text.take(":")
    return str(name)


def _passed_over(records: Iterator[JsonValue]) -> Iterator[JsonValue]:
    for _ in records:
        pass
    yield from ()


def _is_list_of_records(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict | list)

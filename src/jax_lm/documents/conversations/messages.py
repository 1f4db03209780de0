"""The messages of a conversation, from the shapes in which records hold them."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jax_lm.documents.malformed import RecordError, found, kind
from jax_lm.errors import nearest

SYSTEM, USER, ASSISTANT, TOOL = ROLES = ("system", "user", "assistant", "tool")
KNOWN_AS = {
    **{name: SYSTEM for name in ("system", "developer")},
    **{name: USER for name in ("user", "human", "prompter")},
    **{
        name: ASSISTANT
        for name in ("assistant", "gpt", "chatgpt", "bot", "bard", "bing", "model", "ai")
    },
    **{name: TOOL for name in ("tool", "function", "observation", "ipython")},
}
"""Roles by the names that data sets give them."""
ROLE_FIELDS, CONTENT_FIELDS = ("role", "from"), ("content", "value")
THINK, THINK_END = "<think>", "</think>"
UNRENDERED = ("tool_calls", "function_call")


class Message(NamedTuple):
    """One turn: who speaks, and every text of it that a template may write."""

    role: str
    texts: tuple[tuple[str, str], ...]
    """Field and text; ``content`` comes first."""
    weight: float = 1.0
    """Of an assistant's turn in the loss."""


def message(role: str, content: str) -> Message:
    """A turn that holds nothing but its content."""
    return Message(role, (("content", content),))


def reasoning_apart(one: Message) -> Message:
    """What stands between ``<think>`` and ``</think>`` as ``reasoning_content``, where it may be.

    Templates of models that reason take either spelling, and this one shows where the tags, which
    may be special tokens, are the template's own.
    """
    (field, content), *others = one.texts
    if one.role != ASSISTANT or THINK_END not in content:
        return one
    reasoning = content.split(THINK_END)[0].split(THINK)[-1].strip("\n")
    said = content.split(THINK_END)[-1].lstrip("\n")
    return one._replace(texts=((field, said), ("reasoning_content", reasoning), *others))


def is_messages(value: object) -> bool:
    """Whether a value looks like a list of messages; an empty list does not."""
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        return False
    first = value[0]
    return isinstance(first, Mapping) and any(field in first for field in ROLE_FIELDS)


def read_messages(items: object, where: str, system: object = None) -> tuple[Message, ...]:
    """Check a list of ``role`` and ``content``, or of ShareGPT's ``from`` and ``value``.

    Args:
        items: what the record holds.
        where: the field, for a message to a person.
        system: the record's own system message; it goes first unless the list has one.

    Raises:
        RecordError: a message has no known role or no text, or there is none.
    """
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise RecordError(f"{where} should be a list of messages, found {kind(items)}")
    if not items:
        raise RecordError(f"{where} is an empty conversation; expected at least one message")
    read = tuple(_message(item, f"message {n} of {where}") for n, item in enumerate(items, 1))
    if isinstance(system, str) and system.strip() and read[0].role != SYSTEM:
        return (message(SYSTEM, system), *read)
    return read


def _message(item: object, where: str) -> Message:
    if not isinstance(item, Mapping):
        raise RecordError(f"{where} should be an object, found {kind(item)}")
    role = _role(_field(item, ROLE_FIELDS, where), where)
    for field in UNRENDERED:
        if item.get(field):
            raise RecordError(
                f"{where} has {field!r}, which is not rendered; write the call into its content"
            )
    content = _content(_field(item, CONTENT_FIELDS, where), where)
    others = [
        (str(key), value)
        for key, value in item.items()
        if isinstance(value, str) and key not in (*ROLE_FIELDS, *CONTENT_FIELDS)
    ]
    return Message(role, (("content", content), *others), _weight(item.get("weight"), where))


def _field(item: Mapping[str, object], names: Sequence[str], where: str) -> object:
    for name in names:
        if name in item:
            return item[name]
    raise RecordError(f"{where} has no {' or '.join(map(repr, names))}; {found(item)}")


def _role(value: object, where: str) -> str:
    role = KNOWN_AS.get(value.strip().lower()) if isinstance(value, str) else None
    if role is None:
        shown = repr(value) if isinstance(value, str) else kind(value)
        close = nearest(str(value), KNOWN_AS)
        expected = ", ".join(ROLES[:-1])
        raise RecordError(f"{where} has role {shown}, expected {expected} or {ROLES[-1]}{close}")
    return role


def _content(value: object, where: str) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, Sequence) or not value:
        raise RecordError(f"the content of {where} should be text, found {kind(value)}")
    return "".join(_part(part, where) for part in value)


def _part(part: object, where: str) -> str:
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, Mapping) else None
    if not isinstance(text, str):
        named = part.get("type") if isinstance(part, Mapping) else None
        shown = repr(named) if isinstance(named, str) else kind(part)
        raise RecordError(f"the content of {where} has a part that is not text: {shown}")
    return text


def _weight(value: object, where: str) -> float:
    """OpenAI's fine-tuning format gives assistant's messages a weight of 0 or 1."""
    if value is None:
        return 1.0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RecordError(f"{where} has as weight {kind(value)}, expected a number")
    if not math.isfinite(value) or value < 0:
        raise RecordError(f"{where} has weight {value!r}; expected a finite number, 0 or more")
    return float(value)

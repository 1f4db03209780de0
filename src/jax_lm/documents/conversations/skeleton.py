"""What a chat template writes around texts: its output for placeholders in place of them."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from jax_lm.documents.conversations.messages import Message
from jax_lm.documents.conversations.sandbox import (
    GENERATED_CLOSE,
    GENERATED_OPEN,
    MARKED,
    render,
)
from jax_lm.documents.conversations.templates import ChatTemplate

OPEN, CLOSE = "\ue0f0", "\ue0f1"
BEFORE, AFTER = "\u2004", "\u2005"
"""Rare white space for that around a text: whether the template trims it is seen in its output."""
CUTS = re.compile(
    f"({BEFORE}?){OPEN}([0-9]+){CLOSE}({AFTER}?)|({GENERATED_OPEN}|{GENERATED_CLOSE})"
)


class Shape(NamedTuple):
    """All of a message that decides what a template writes around its texts."""

    role: str
    fields: tuple[tuple[str, str | None, bool, bool], ...]
    """Field, its text if that is blank; whether white space is before and after it otherwise."""


class Piece(NamedTuple):
    """A run of a template's output: its own, or a text of the conversation."""

    own: str
    """Empty for a text."""
    number: int | None = None
    """Of a text, among those that are not blank."""
    generated: bool = False
    """Between ``{% generation %}`` and ``{% endgeneration %}``."""
    keeps_before: bool = True
    """White space before the text is not trimmed."""
    keeps_after: bool = True

    def filled(self, texts: Sequence[str]) -> str:
        """The run as it is once the texts are in their places."""
        if self.number is None:
            return self.own
        text = texts[self.number]
        text = text if self.keeps_before else text.lstrip()
        return text if self.keeps_after else text.rstrip()


def shapes_of(messages: Sequence[Message], *, trimmed: bool = False) -> tuple[Shape, ...]:
    """The shapes of messages, as if no white space were around their texts where ``trimmed``."""
    return tuple(
        Shape(one.role, tuple((field, *_edges(text, trimmed)) for field, text in one.texts))
        for one in messages
    )


def _edges(text: str, trimmed: bool) -> tuple[str | None, bool, bool]:
    if not text.strip():
        return text, False, False
    return None, not trimmed and text[0].isspace(), not trimmed and text[-1].isspace()


@lru_cache(maxsize=1024)
def skeleton(template: ChatTemplate, shapes: tuple[Shape, ...]) -> tuple[Piece, ...]:
    """The template's output for messages of these shapes, in pieces.

    Raises:
        RecordError: the template refuses them.
    """
    return tuple(_cut(run(template, placeholders(shapes), marked=True)))


def placeholder(index: int) -> str:
    """What stands for text ``index``."""
    return f"{OPEN}{index}{CLOSE}"


def placeholders(shapes: Sequence[Shape]) -> list[dict[str, str]]:
    """Messages with a placeholder for each text that is not blank."""
    index = 0
    filled = []
    for role, fields in shapes:
        texts = {"role": role}
        for field, blank, before, after in fields:
            mark = f"{BEFORE * before}{placeholder(index)}{AFTER * after}"
            texts[field] = mark if blank is None else blank
            index += blank is None
        filled.append(texts)
    return filled


def run(template: ChatTemplate, messages: list[dict[str, str]], *, marked: bool = False) -> str:
    """The template's output, with marks around what is generated if they are asked for.

    Raises:
        RecordError: the template refuses the messages.
    """
    values: dict[str, object] = dict(template.special_tokens)
    if template.today:
        values["strftime_now"] = datetime.fromisoformat(template.today).strftime
    return render(template.source, messages, {**values, MARKED: marked})


def _cut(text: str) -> Iterator[Piece]:
    start, depth = 0, 0
    for match in CUTS.finditer(text):
        if match.start() > start:
            yield Piece(text[start : match.start()], generated=depth > 0)
        before, index, after, mark = match.groups()
        if mark is None:
            # Without white space around it a text has none to trim.
            yield Piece("", int(index), depth > 0, bool(before), bool(after))
        else:
            depth += 1 if mark == GENERATED_OPEN else -1
        start = match.end()
    if start < len(text):
        yield Piece(text[start:], generated=depth > 0)

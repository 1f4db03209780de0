"""Messages -> weighted segments, with what a template writes kept apart from what people wrote.

The template is run on placeholders in place of the texts, so that its own output shows where each
text goes. A template that is not ours is run on the texts as well: the segments must join to that
very string.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from jax_lm.documents.conversations.closing import closing_length
from jax_lm.documents.conversations.messages import (
    ASSISTANT,
    THINK,
    THINK_END,
    USER,
    Message,
    message,
    reasoning_apart,
)
from jax_lm.documents.conversations.skeleton import (
    Piece,
    Shape,
    placeholder,
    placeholders,
    run,
    shapes_of,
    skeleton,
)
from jax_lm.documents.conversations.templates import NAMED, ChatTemplate
from jax_lm.documents.malformed import RecordError
from jax_lm.types import Segment

SPOKEN = ("content", "reasoning_content", "reasoning", "thinking")
"""Fields that hold what an assistant says; the others say something about it."""
THROUGH = frozenset(NAMED.values())
"""Templates that write the same around a text whatever it says, and so need not be watched."""


class Spoken(NamedTuple):
    """A text: in which message it stands, and what its tokens weigh."""

    message: int
    weight: float


NOBODY = Spoken(-1, 0.0)


class Planned(NamedTuple):
    """A segment but for the text of people, which is not known yet."""

    piece: Piece
    weight: float

    def segment(self, texts: Sequence[str], as_they_are: bool) -> Segment:
        """With the texts in their places, trimmed as the template does unless that is done."""
        piece = self.piece
        if as_they_are and piece.number is not None:
            return Segment(texts[piece.number], self.weight)
        return Segment(piece.filled(texts), self.weight, piece.number is None)


def render_conversation(messages: Sequence[Message], template: ChatTemplate) -> tuple[Segment, ...]:
    """Weight 1 for what assistants say and for what ends their turns, 0 for the rest.

    Where a template marks with ``{% generation %}`` what the assistant generates, exactly that is
    scored. Joined, the segments are what the template makes of the messages.

    Raises:
        RecordError: the template refuses the messages, leaves one out or rewrites it.
    """
    if template.source in THROUGH:
        return _segments(messages, template)
    whole = run(template, [{"role": one.role, **dict(one.texts)} for one in messages])
    for attempt in (_segments, _with_reasoning_apart, _with_texts_as_written):
        segments = attempt(messages, template)
        if "".join([segment.text for segment in segments]) == whole:
            return segments
    raise _rewritten(template, "the messages")


def _segments(messages: Sequence[Message], template: ChatTemplate) -> tuple[Segment, ...]:
    texts = [text for one in messages for _, text in one.texts if text.strip()]
    return _filled(_plan(template, shapes_of(messages), _weights(messages)), texts)


def _with_reasoning_apart(
    messages: Sequence[Message], template: ChatTemplate
) -> tuple[Segment, ...]:
    """For templates that look into what an assistant says for its reasoning."""
    if not any(THINK_END in text for one in messages for _, text in one.texts):
        return ()
    try:
        return _segments([reasoning_apart(one) for one in messages], template)
    except RecordError:  # it may want the message whole
        return ()


def _with_texts_as_written(
    messages: Sequence[Message], template: ChatTemplate
) -> tuple[Segment, ...]:
    """For templates that change a text, but nothing around it."""
    shapes = shapes_of(messages, trimmed=True)
    observed = _observed(template, messages, shapes)
    return _filled(_plan(template, shapes, _weights(messages)), observed, as_they_are=True)


def _weights(messages: Sequence[Message]) -> tuple[float, ...]:
    return tuple([one.weight if one.role == ASSISTANT else 0.0 for one in messages])


def _filled(
    plan: Sequence[Planned], texts: Sequence[str], *, as_they_are: bool = False
) -> tuple[Segment, ...]:
    segments = [planned.segment(texts, as_they_are) for planned in plan]
    return tuple([segment for segment in segments if segment.text])


@lru_cache(maxsize=1024)
def _plan(
    template: ChatTemplate, shapes: tuple[Shape, ...], weights: tuple[float, ...]
) -> tuple[Planned, ...]:
    """The segments of all conversations of these shapes, whose messages have these weights.

    Raises:
        RecordError: the template refuses such messages or leaves one out.
    """
    pieces = skeleton(template, shapes)
    texts = [
        (n, field)
        for n, one in enumerate(shapes)
        for field, blank, *_ in one.fields
        if blank is None
    ]
    _refuse_missing(template, shapes, texts, pieces)
    spoken = [Spoken(n, weights[n] if field in SPOKEN else 0.0) for n, field in texts]
    return tuple(_merged(_weighted(template, pieces, spoken)))


def _observed(
    template: ChatTemplate, messages: Sequence[Message], shapes: tuple[Shape, ...]
) -> list[str]:
    """What the template makes of each text, seen with that text real and all others placeholders.

    Raises:
        RecordError: the template writes something else around a text because of what it says.
    """
    fields = [(n, *text) for n, one in enumerate(messages) for text in one.texts if text[1].strip()]
    marks = list(map(placeholder, range(len(fields))))
    skeletal = "".join(
        piece.own if piece.number is None else marks[piece.number]
        for piece in skeleton(template, shapes)
    )
    observed = []
    for mark, (number, field, text) in zip(marks, fields, strict=True):
        filled = placeholders(shapes)
        filled[number][field] = text
        seen = run(template, filled)
        before, _, after = skeletal.partition(mark)
        stop = len(seen) - len(after)
        if not (seen.startswith(before) and seen.endswith(after) and stop >= len(before)):
            raise _rewritten(template, f"message {number + 1} ({messages[number].role})")
        observed.append(seen[len(before) : stop])
    return observed


def _refuse_missing(
    template: ChatTemplate,
    shapes: Sequence[Shape],
    texts: Sequence[tuple[int, str]],
    pieces: Sequence[Piece],
) -> None:
    """Refuse to lose what someone said."""
    there = {piece.number for piece in pieces}
    for index, (number, field) in enumerate(texts):
        if field == "content" and index not in there:
            raise RecordError(
                f"the chat template {template.name} leaves out message {number + 1} "
                f"({shapes[number].role}); name another with --chat-template"
            )


def _rewritten(template: ChatTemplate, what: str) -> RecordError:
    return RecordError(
        f"the chat template {template.name} writes around {what} according to what is said, so "
        "what is to be learned cannot be told apart; name another with --chat-template"
    )


def _weighted(
    template: ChatTemplate, pieces: Sequence[Piece], spoken: Sequence[Spoken]
) -> Iterator[Planned]:
    if any(piece.generated for piece in pieces):
        for piece in pieces:
            weight = 1.0 if piece.number is None else spoken[piece.number].weight
            yield Planned(piece, weight * piece.generated)
        return
    around = [NOBODY if p.number is None else spoken[p.number] for p in pieces]
    for place, (before, piece, after) in enumerate(
        zip([NOBODY, *around], pieces, [*around[1:], NOBODY], strict=False), 1
    ):
        if piece.number is not None:
            yield Planned(piece, spoken[piece.number].weight)
            continue
        end, start = 0, len(piece.own)
        if before.weight and before.message == after.message:
            end = start
        elif before.weight:
            end = closing_length(piece.own, _ending(template), last=place == len(pieces))
        if after.weight and THINK in piece.own[end:]:
            start = piece.own.rindex(THINK)
        yield Planned(Piece(piece.own[:end]), before.weight)
        yield Planned(Piece(piece.own[end:start]), 0.0)
        yield Planned(Piece(piece.own[start:]), after.weight)


@lru_cache(maxsize=16)
def _ending(template: ChatTemplate) -> str:
    """What the template writes after an assistant's message that is the last."""
    try:
        turns = (message(USER, "q"), message(ASSISTANT, "a"))
        return skeleton(template, shapes_of(turns))[-1].own
    except RecordError:  # it wants other turns than these
        return ""


def _merged(plan: Iterator[Planned]) -> Iterator[Planned]:
    """The template's own neighbours of one weight joined, empty ones left out."""
    for (is_own, weight), group in groupby(plan, key=lambda p: (p.piece.number is None, p.weight)):
        if not is_own:
            yield from group
        elif own := "".join(planned.piece.own for planned in group):
            yield Planned(Piece(own), weight)

"""Conversations as prompts: the ids that a model continues, and what ends its answer."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from jax_lm.documents.conversations.asking import ask
from jax_lm.documents.conversations.messages import SYSTEM, Message
from jax_lm.documents.conversations.templates import NAMED, ChatTemplate
from jax_lm.documents.malformed import RecordError
from jax_lm.errors import UsageError
from jax_lm.tokenizers.base import Tokenizer, start_id
from jax_lm.tokenizers.segments import encode_segments
from jax_lm.types import Segment


class ChatPrompt(NamedTuple):
    """A conversation that waits for the model's answer."""

    ids: list[int]
    stop: tuple[str, ...]
    """Texts that end the answer."""
    stop_ids: tuple[int, ...]
    """Tokens that end the answer."""
    num_forgotten: int = 0
    """Messages at the beginning that were left out, for the context is too short."""


def chat_prompt(
    messages: Sequence[Message], template: ChatTemplate, tokenizer: Tokenizer
) -> ChatPrompt:
    """Ids of a conversation up to where the assistant speaks, as its training cut them.

    Where the template is one of ours, the start token stands first, as it does in feature rows;
    templates that come with a model write it themselves where they want it.

    Raises:
        UsageError: the template refuses the messages.
    """
    try:
        segments, ending = ask(messages, template)
    except RecordError as error:
        raise UsageError(str(error)) from error
    return answer_prompt(segments, ending, template, tokenizer)


def answer_prompt(
    segments: Sequence[Segment], ending: str, template: ChatTemplate, tokenizer: Tokenizer
) -> ChatPrompt:
    """Ids of what a template wrote before an answer, and what ends that.

    Args:
        segments: the conversation up to where the assistant speaks.
        ending: what the template writes after an answer; empty where nothing.
        template: which one that is.
        tokenizer: the model's.
    """
    first = start_id(tokenizer) if template.source in NAMED.values() else None
    ids = [] if first is None else [first]
    ids += encode_segments(segments, tokenizer).ids.tolist()
    ends = tokenizer.encode_batch([ending], parse_special=True).ids.tolist() if ending else []
    if len(ends) == 1 and ends[0] in tokenizer.special_ids:
        return ChatPrompt(ids, (), (ends[0],))
    return ChatPrompt(ids, (ending,) if ending else (), ())


def fitting_prompt(
    messages: Sequence[Message], template: ChatTemplate, tokenizer: Tokenizer, *, most: int
) -> ChatPrompt:
    """The prompt of at most so many tokens that forgets the fewest messages.

    The system's message stays; of the others the oldest go, until a user's turn comes first.

    Raises:
        UsageError: the system's message or the last one is too long, or the template refuses the
            messages.
    """
    lead = [one for one in messages[:1] if one.role == SYSTEM]
    rest = list(messages[len(lead) :])
    starts = [place for place, one in enumerate(rest) if one.role == rest[0].role] or [0]

    @cache
    def prompt_from(index: int) -> ChatPrompt:
        start = starts[index]
        prompt = chat_prompt([*lead, *rest[start:]], template, tokenizer)
        return prompt._replace(num_forgotten=start)

    if lead and len(chat_prompt(lead, template, tokenizer).ids) > most:
        raise UsageError(f"the system message alone is longer than {most:,} tokens: shorten it")
    first = first_that_fits(len(starts), lambda index: len(prompt_from(index).ids) <= most)
    if first == len(starts):
        raise UsageError(
            "the last message does not fit: with it the prompt has "
            f"{len(prompt_from(first - 1).ids):,} tokens, and {most:,} leave room for an answer; "
            "write less"
        )
    return prompt_from(first)


def first_that_fits(count: int, fits: Callable[[int], bool]) -> int:
    """The least of ``count`` numbers that fits, where all after one that fits do; else ``count``.

    Asked from the end in doubled steps, then by halves: of a long conversation little more is read
    than what fits.
    """
    too_long, fitting, step = -1, count, 1
    while fitting and too_long < 0:
        index = max(0, count - step)
        if fits(index):
            fitting, step = index, 2 * step
        else:
            too_long = index
    while fitting - too_long > 1:
        middle = (fitting + too_long) // 2
        if fits(middle):
            fitting = middle
        else:
            too_long = middle
    return fitting

"""Conversations as prompts: the ids that a model continues, and what ends its answer."""

from collections.abc import Sequence
from typing import NamedTuple

from jax_lm.documents.conversations.asking import ask
from jax_lm.documents.conversations.messages import SYSTEM, Message
from jax_lm.documents.conversations.templates import NAMED, ChatTemplate
from jax_lm.documents.malformed import RecordError
from jax_lm.errors import UsageError
from jax_lm.tokenizers.base import Tokenizer, start_id
from jax_lm.tokenizers.segments import encode_segments


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
        UsageError: the last message alone is too long, or the template refuses the messages.
    """
    lead = [one for one in messages[:1] if one.role == SYSTEM]
    rest = list(messages[len(lead) :])
    for start in range(max(1, len(rest))):
        if not rest or rest[start].role == rest[0].role:
            prompt = chat_prompt([*lead, *rest[start:]], template, tokenizer)
            if len(prompt.ids) <= most:
                return prompt._replace(num_forgotten=start)
    raise UsageError(
        f"the last message does not fit: with it the prompt has {len(prompt.ids):,} tokens, and "
        f"{most:,} leave room for an answer; write less"
    )

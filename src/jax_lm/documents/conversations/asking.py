"""A conversation as it is given to a model that is to speak next."""

from collections.abc import Sequence
from typing import NamedTuple

from jax_lm.documents.conversations.messages import ASSISTANT, Message, message
from jax_lm.documents.conversations.rendering import render_conversation
from jax_lm.documents.conversations.templates import ChatTemplate
from jax_lm.types import Segment

ANSWER = "\ue0f4"
"""Private-use character that stands for the answer which is not there yet."""


class OpenTurn(NamedTuple):
    """A conversation up to where the assistant begins to speak."""

    segments: tuple[Segment, ...]
    ending: str
    """What ends the assistant's turn, as it was learned; empty where nothing does."""


def ask(messages: Sequence[Message], template: ChatTemplate) -> OpenTurn:
    """What stands before the assistant's next answer: exactly what stood there in training.

    So a template needs no ``add_generation_prompt`` of its own, and a text that looks like a
    special token stays text.

    Raises:
        RecordError: the template refuses the messages, leaves one out or rewrites it.
    """
    segments = render_conversation((*messages, message(ASSISTANT, ANSWER)), template)
    place = max(i for i, segment in enumerate(segments) if ANSWER in segment.text)
    after = "".join(segment.text for segment in segments[place + 1 :] if segment.weight)
    return OpenTurn(segments[:place], after)

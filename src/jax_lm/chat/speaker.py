"""Who answers: the Protocol that a model here and a model behind a server both satisfy."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from jax_lm.documents.conversations.messages import Message
from jax_lm.generation.sampling import SamplingConfig


class Speaker(Protocol):
    """Answers conversations, a piece of text at a time."""

    @property
    def name(self) -> str:
        """Whom one talks to, for a person."""
        ...

    @property
    def is_cut(self) -> bool:
        """Whether the last answer ended because it was as long as it may be."""
        ...

    def interrupt(self) -> None:
        """Make an answer that is waited for end soon; called while a signal is handled."""
        ...

    def answer(self, messages: Sequence[Message], sampling: SamplingConfig) -> Iterator[str]:
        """The answer's pieces as they come; closing the iterator stops the work.

        Raises:
            JaxLMError: no answer can be given, or the server failed; one can go on asking.
        """
        ...

    @property
    def num_forgotten(self) -> int:
        """Messages at the beginning that the last answer leaves out; it may be known late."""
        ...

"""What the decoding thread is given, and what it gives back."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from jax_lm.generation.requests import Drawn, Request


class Decoding(Protocol):
    """Texts written side by side, a token of each at every step; see ``SlotDecoder``."""

    @property
    def num_slots(self) -> int:
        """Most texts at once."""
        ...

    @property
    def num_free(self) -> int:
        """Slots without a text."""
        ...

    @property
    def context_length(self) -> int:
        """Most tokens that the model sees."""
        ...

    @property
    def intact(self) -> bool:
        """Whether the texts in their slots can go on, whatever was raised before."""
        ...

    def prompts_at_once(self, length: int) -> int:
        """Prompts of such a length that are read together at most."""
        ...

    def admit(self, requests: Sequence[Request]) -> Sequence[int]:
        """Give each request a free slot, and say which."""
        ...

    def step(self) -> Sequence[Drawn]:
        """One token of every text; a slot whose text ended with it is free again."""
        ...

    def release(self, slot: int) -> None:
        """End a text early."""
        ...


class Reader(Protocol):
    """Who waits for a text; called in the event loop's thread."""

    def take(self, drawn: Drawn) -> None:
        """The next token."""
        ...

    def fail(self, error: Exception) -> None:
        """No further token comes."""
        ...


@dataclass(eq=False)
class Job:
    """A text to be written; each is itself only."""

    request: Request
    reader: Reader
    slot: int | None = field(default=None, init=False)
    """Where it is being written; -1: its prompt is being read; None: it waits, or has ended."""


class QueueFull(Exception):
    """As many texts wait as may."""


class NotServing(Exception):
    """The decoding thread takes no more work: it was told to stop, or it died."""

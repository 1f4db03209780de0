"""Texts as they are written, read in the event loop: token by token, or once they are whole."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jax_lm.generation.requests import Drawn, Request
from jax_lm.generation.streaming import TextStream
from jax_lm.serving.decoding.jobs import Job
from jax_lm.serving.decoding.worker import Worker
from jax_lm.serving.metrics import Metrics
from jax_lm.tokenizers.base import Tokenizer

LEAST = -9999.0
"""Stands for the logarithm of 0, which JSON cannot spell; OpenAI's choice."""


class Token(NamedTuple):
    """A token that was written."""

    id: int
    log_prob: float
    """Natural logarithm of its probability, before temperature and the like."""
    offset: int
    """Characters of the text before it."""


class Update(NamedTuple):
    """What is new of one text."""

    number: int
    text: str
    tokens: Sequence[Token]
    finish: str | None
    """Why the text ended, once it has."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A text that a request asks for."""

    request: Request
    context: Sequence[int]
    """Ids that the text follows, as far as its spelling goes."""
    stop: tuple[str, ...] = ()


class Writing:
    """One text being written."""

    def __init__(self, index: int, wanted: Wanted, tokenizer: Tokenizer, on_change: "OnChange"):
        self.index = index
        self.job = Job(wanted.request, self)
        self.tokens: list[Token] = []
        self.finish: str | None = None
        self.error: Exception | None = None
        self._stream = TextStream(tokenizer, wanted.context, wanted.stop)
        self._parts: list[str] = []
        self._length = 0
        self._told = 0
        self.counted = 0
        """Tokens that the metrics know of."""
        self._on_change = on_change

    @property
    def text(self) -> str:
        """All of it so far."""
        return "".join(self._parts)

    @property
    def ended(self) -> bool:
        """Whether nothing more comes."""
        return self.finish is not None or self.error is not None

    def take(self, drawn: Drawn) -> None:
        """The next token; what comes after a stop string is not wanted."""
        if self.ended:
            return
        self.tokens.append(Token(drawn.id, max(drawn.log_prob, LEAST), self._length))
        # A token that ends the text is no part of it.
        if drawn.finish != "stop":
            self._add(self._stream.push(drawn.id))
        if self._stream.stopped:
            self.finish = "stop"
        elif drawn.finish is not None:
            self._add(self._stream.finish())
            self.finish = "stop" if self._stream.stopped else drawn.finish
        self._on_change(self)

    def fail(self, error: Exception) -> None:
        """No further token comes."""
        if not self.ended:
            self.error = error
            self._on_change(self)

    def halt(self) -> None:
        """End the text here, as if it were finished."""
        if not self.ended:
            self._add(self._stream.finish())
            self.finish = "stop"
            self._on_change(self)

    def leave(self) -> None:
        """Nobody reads it any more."""
        if not self.ended:
            self.finish = "abandoned"
            self._on_change(self)

    def update(self, num_tokens: int) -> Update:
        """What is new since the last update, which had so many tokens in all."""
        fresh = "".join(self._parts[self._told :])
        self._told = len(self._parts)
        return Update(self.index, fresh, self.tokens[num_tokens:], self.finish)

    def _add(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)


OnChange = Callable[[Writing], None]


class Writings:
    """The texts of one request."""

    def __init__(
        self, wanted: Sequence[Wanted], tokenizer: Tokenizer, worker: Worker, metrics: Metrics
    ) -> None:
        self._worker = worker
        self._metrics = metrics
        self._began = time.monotonic()
        self._changed, self._ended = asyncio.Event(), asyncio.Event()
        self.writings = [
            Writing(i, one, tokenizer, self._on_change) for i, one in enumerate(wanted)
        ]
        self.num_prompt_tokens = sum(len(one.request.prompt) for one in wanted)

    def begin(self) -> None:
        """Queue them.

        Raises:
            QueueFull: there is no room for all of them.
            NotServing: the server takes no more work.
        """
        self._worker.submit([one.job for one in self.writings])
        self._metrics.tokens.add("prompt", by=self.num_prompt_tokens)

    @property
    def num_tokens(self) -> int:
        """Tokens written so far."""
        return sum(len(one.tokens) for one in self.writings)

    async def updates(self) -> AsyncIterator[Update]:
        """What is new, text by text, until every one has ended.

        Raises:
            Exception: what made a text fail.
        """
        async for changed in self.changes():
            for update in changed:
                yield update

    async def changes(self) -> AsyncIterator[list[Update]]:
        """What is new of all texts together, whenever something is, until every one has ended.

        Raises:
            Exception: what made a text fail.
        """
        told = dict.fromkeys(range(len(self.writings)), 0)
        while told:
            await self._changed.wait()
            self._changed.clear()
            updates = self._fresh(told)
            for update in updates:
                told[update.number] += len(update.tokens)
                if update.finish is not None:
                    del told[update.number]
            yield updates

    def _fresh(self, told: Mapping[int, int]) -> list[Update]:
        updates = []
        for index, num_tokens in told.items():
            writing = self.writings[index]
            if writing.error is not None:
                raise writing.error
            if writing.ended or len(writing.tokens) > num_tokens:
                updates.append(writing.update(num_tokens))
        return updates

    async def finished(self) -> None:
        """Wait until every text has ended.

        Raises:
            Exception: what made one fail.
        """
        await self._ended.wait()
        for one in self.writings:
            if one.error is not None:
                raise one.error

    def halt(self) -> None:
        """End all texts where they are; those who read them get what there is."""
        for one in self.writings:
            one.halt()

    def abandon(self) -> None:
        """Nobody reads them any more: their slots are freed."""
        self._worker.abandon([one.job for one in self.writings])
        for one in self.writings:
            one.leave()

    def _on_change(self, writing: Writing) -> None:
        self._changed.set()
        self._count(writing, time.monotonic() - self._began)
        if writing.ended:
            self._worker.abandon([writing.job])
            if writing.error is not None or all(one.ended for one in self.writings):
                self._ended.set()

    def _count(self, writing: Writing, seconds: float) -> None:
        num_tokens = len(writing.tokens)
        if num_tokens and not writing.counted:
            self._metrics.first_token.observe(seconds)
        self._metrics.tokens.add("generated", by=num_tokens - writing.counted)
        writing.counted = num_tokens
        if not writing.ended:
            return
        reason = "failed" if writing.error is not None else str(writing.finish)
        self._metrics.ended.add(reason)
        if reason in ("stop", "length"):
            self._metrics.texts.observe(seconds)

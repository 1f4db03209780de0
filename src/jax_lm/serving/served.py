"""A model as the routes see it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from jax_lm.documents.conversations.templates import ChatTemplate
from jax_lm.generation.chat_prompt import ChatPrompt
from jax_lm.generation.requests import Request
from jax_lm.generation.requests import copies as numbered
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.generation.text import encode_prompts
from jax_lm.serving.decoding.jobs import NotServing, QueueFull
from jax_lm.serving.decoding.scoring import Scoring
from jax_lm.serving.decoding.worker import Worker
from jax_lm.serving.decoding.writing import Wanted, Writings
from jax_lm.serving.metrics import Metrics
from jax_lm.serving.options import ServeOptions
from jax_lm.serving.refusals import Refused, broken, shutting_down, too_busy
from jax_lm.tokenizers.base import Tokenizer


@dataclass(kw_only=True)
class Served:
    """Everything that answering a request needs."""

    name: str
    tokenizer: Tokenizer
    template: ChatTemplate
    worker: Worker
    scoring: Scoring
    options: ServeOptions
    vocab_size: int
    """Of the model."""
    has_template: bool = False
    """Whether the template is the model's own."""
    reads_apart: bool = False
    """Whether an encoder reads the prompt, which then takes no room of the answer's."""
    token: str | None = None
    """What clients have to show."""
    metrics: Metrics = field(default_factory=Metrics)
    created: int = field(default_factory=lambda: int(time.time()))
    draining: bool = False
    """Whether new requests are refused because the server is about to end."""
    streams: dict[str, Writings] = field(default_factory=dict)
    """Those that can be stopped by name."""

    def __post_init__(self) -> None:
        """Let the metrics see the queue."""
        worker, watch = self.worker, self.metrics.watch
        watch("jax_lm_queue_length", "Texts that wait for a slot.", lambda: worker.num_waiting)
        watch("jax_lm_slots_busy", "Texts being written.", lambda: worker.num_running)
        watch("jax_lm_slots", "Most texts written at once.", lambda: worker.num_slots)

    @property
    def status(self) -> str:
        """``ok``, ``shutting down`` or ``failed``."""
        if self.worker.error is not None:
            return "failed"
        return "shutting down" if self.draining else "ok"

    @property
    def most_texts(self) -> int:
        """Most texts that one request may ask for."""
        return min(self.options.max_texts, self.worker.capacity)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, special tokens in it being ordinary text.

        Raises:
            JaxLMError: the vocabulary cannot spell it, or it is empty and nothing begins a text.
        """
        (ids,) = encode_prompts(self.tokenizer, [text], inputs=self.reads_apart)
        return ids

    def conversation(self, prompt: ChatPrompt) -> ChatPrompt:
        """A conversation as the model reads it: an encoder's input ends with EOS."""
        eos_id = self.tokenizer.eos_id
        if not self.reads_apart or eos_id is None:
            return prompt
        return prompt._replace(ids=[*prompt.ids, eos_id])

    def encode_output(self, text: str) -> list[int]:
        """The ids of a text that follows another; none for an empty one.

        Raises:
            JaxLMError: the vocabulary cannot spell it.
        """
        ids: list[int] = self.tokenizer.encode_batch([text]).ids.tolist() if text else []
        return ids

    def spelling(self, token_id: int) -> str:
        """What a token adds to a text: SentencePiece gives up the first space of one."""
        decode = self.tokenizer.decode
        return decode([token_id, token_id])[len(decode([token_id])) :]

    def room(self, prompt: Sequence[int]) -> int:
        """Tokens that may follow a prompt.

        Raises:
            Refused: 400, the prompt leaves none.
        """
        context = self.worker.context_length
        room = context if self.reads_apart else context - len(prompt)
        if len(prompt) > context or room < 1:
            raise Refused(
                400,
                f"the prompt has {len(prompt):,} tokens, and the model's context of {context:,} "
                "leaves no room for an answer; shorten it",
                code="context_length_exceeded",
                param="prompt",
            )
        return room

    def write(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: SamplingConfig,
        *,
        copies: int = 1,
        stop: tuple[str, ...] = (),
    ) -> Writings:
        """Queue texts, ``copies`` after each prompt, one prompt after the other.

        Raises:
            Refused: 400, 429 or 503.
        """
        self.check_count(len(prompts) * copies)
        for prompt in prompts:
            self.room(prompt)
        every = [tuple(prompt) for prompt in prompts for _ in range(copies)]
        wanted = [
            Wanted(
                request=Request(prompt=prompt, sampling=sampling, copy=number),
                context=() if self.reads_apart else prompt,
                stop=stop,
            )
            for prompt, number in zip(every, numbered(every), strict=True)
        ]
        writings = Writings(wanted, self.tokenizer, self.worker, self.metrics)
        with_errors(self, writings.begin)
        return writings

    def check_count(self, count: int) -> None:
        """Refuse more texts than one request may ask for.

        Raises:
            Refused: 400.
        """
        most = self.most_texts
        if count > most:
            raise Refused(
                400,
                f"the request asks for {count:,} texts, and the server takes at most {most} of "
                "one request; split it",
                code="too_many_texts",
                param="n",
            )

    def retry_after(self) -> int:
        """Seconds after which it makes sense to ask again: a guess from how long texts took."""
        texts = self.metrics.texts
        each = texts.sum / max(1, sum(texts.counts))
        waves = self.worker.num_waiting / self.worker.num_slots + 1
        return max(1, min(60, round(each * waves / 2)))


def with_errors(served: Served, begin: Callable[[], None]) -> None:
    """Begin work, telling a client why it cannot be.

    Raises:
        Refused: 429 or 503.
    """
    try:
        begin()
    except QueueFull as error:
        raise too_busy(served.retry_after()) from error
    except NotServing as error:
        raise (broken() if served.worker.error is not None else shutting_down()) from error

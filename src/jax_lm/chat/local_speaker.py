"""A model that was loaded here."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from jax_lm.documents.conversations.messages import Message
from jax_lm.documents.conversations.templates import ChatTemplate
from jax_lm.errors import JaxLMError
from jax_lm.generation.chat_prompt import fitting_prompt
from jax_lm.generation.requests import Request
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.generation.slots import SlotDecoder
from jax_lm.generation.streaming import TextStream
from jax_lm.models.decoder import Decoder
from jax_lm.pretrained import OpenedModel
from jax_lm.tokenizers.base import Tokenizer


class LocalSpeaker:
    """Answers with a decoder; one answer at a time."""

    def __init__(self, opened: OpenedModel, template: ChatTemplate, *, dtype: str) -> None:
        """Make the model ready.

        Args:
            opened: a decoder and its tokenizer.
            template: how conversations become prompts.
            dtype: of the computation.

        Raises:
            JaxLMError: the model is no decoder.
        """
        if not isinstance(opened.model, Decoder):
            raise JaxLMError(
                f"{opened.path}: a model of kind {opened.model.config.kind} does not chat; "
                "name a decoder"
            )
        self._tokenizer: Tokenizer = opened.tokenizer
        self._template = template
        self._decoder = SlotDecoder(
            opened.model, num_slots=1, eos_id=opened.tokenizer.eos_id, dtype=dtype
        )
        own = template.name == str(opened.tokenizer_path)
        self.name = f"{opened.path}, {'its own' if own else template.name} chat template"
        self.num_forgotten = 0
        self.is_cut = False
        self._warm_up()

    def interrupt(self) -> None:
        """The next token comes soon anyway, and the model must not be left in the middle of it."""

    def answer(self, messages: Sequence[Message], sampling: SamplingConfig) -> Iterator[str]:
        """As the Protocol says; half of the context at most is kept free for the answer."""
        context = self._decoder.context_length
        room = min(sampling.max_new_tokens, context // 2)
        prompt = fitting_prompt(messages, self._template, self._tokenizer, most=context - room)
        self.num_forgotten = prompt.num_forgotten
        asked = replace(sampling, stop=(), stop_ids=(*sampling.stop_ids, *prompt.stop_ids))
        stream = TextStream(self._tokenizer, prompt.ids, (*sampling.stop, *prompt.stop))
        return self._drawn(Request(prompt.ids, asked), stream)

    def _warm_up(self) -> None:
        """Compile what a first question will need, before it is asked."""
        longest = SamplingConfig(max_new_tokens=self._decoder.context_length)
        (slot,) = self._decoder.admit([Request((0,), longest)])
        self._decoder.step()
        self._decoder.release(slot)

    def _drawn(self, request: Request, stream: TextStream) -> Iterator[str]:
        (slot,) = self._decoder.admit([request])
        finish, self.is_cut = None, False
        try:
            while finish is None and not stream.stopped:
                (drawn,) = self._decoder.step()
                finish = drawn.finish
                if finish != "stop":
                    yield stream.push(drawn.id)
            self.is_cut = finish == "length" and not stream.stopped
            if not stream.stopped:
                yield stream.finish()
        finally:
            if finish is None:
                self._decoder.release(slot)

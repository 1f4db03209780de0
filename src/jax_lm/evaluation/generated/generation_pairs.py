"""Documents as inputs and the outputs that are expected after them."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, takewhile
from typing import NamedTuple

from jax_lm.documents.conversations.templates import DEFAULT, ChatTemplate
from jax_lm.generation.chat_prompt import ChatPrompt, answer_prompt
from jax_lm.models.decoder import Decoder
from jax_lm.models.encoder_decoder import EncoderDecoder
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.segments import encode_segments
from jax_lm.types import Document, Segment


class GenerationPair(NamedTuple):
    """An input and what should follow it."""

    id: str
    """Of the document."""
    prompt: tuple[Segment, ...]
    reference: str
    """The output's text, without what a chat template puts around it."""
    ending: str
    """What a chat template writes after an answer that is the last; empty where nothing."""

    @property
    def prompt_text(self) -> str:
        """The input as it is written."""
        return "".join(segment.text for segment in self.prompt)


def generation_pairs(documents: Iterable[Document]) -> Iterator[GenerationPair]:
    """Every run of segments that weigh something, with all that is before it.

    So an ``in_text``/``out_text`` record is one pair, and a conversation one for each answer;
    plain text is none.
    """
    for document in documents:
        before: tuple[Segment, ...] = ()
        found: list[tuple[tuple[Segment, ...], str]] = []
        ending = ""
        for scored, run in groupby(document.segments, key=lambda segment: segment.weight > 0):
            segments = tuple(run)
            if scored and before:
                text = "".join(segment.text for segment in segments if not segment.markup)
                found.append((before, text))
                ending = _ending(segments)
            before += segments
        for prompt, text in found:
            yield GenerationPair(document.id, prompt, text, ending)


def _ending(segments: Sequence[Segment]) -> str:
    """The markup after the last text."""
    after = takewhile(lambda segment: segment.markup, reversed(segments))
    return "".join(reversed([segment.text for segment in after]))


def asked(
    pair: GenerationPair,
    tokenizer: Tokenizer,
    model: Decoder | EncoderDecoder,
    template: ChatTemplate,
) -> ChatPrompt:
    """What the model reads and what ends its text: as in training, and as in a chat.

    Args:
        pair: of a conversation, or an input with an output.
        tokenizer: the model's.
        model: an encoder-decoder reads inputs between BOS and EOS, where the tokenizer has them.
        template: what rendered conversations.
    """
    if not any(segment.markup for segment in pair.prompt):
        template = DEFAULT  # an input with an output, which begins as any document does
    prompt = answer_prompt(pair.prompt, pair.ending, template, tokenizer)
    if not isinstance(model, EncoderDecoder):
        return prompt
    ids: list[int] = encode_segments(pair.prompt, tokenizer).ids.tolist()
    if tokenizer.bos_id is not None and ids[:1] != [tokenizer.bos_id]:
        ids = [tokenizer.bos_id, *ids]
    if tokenizer.eos_id is not None:
        ids.append(tokenizer.eos_id)
    return prompt._replace(ids=ids)

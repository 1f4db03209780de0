"""Documents as inputs and the outputs that are expected after them."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

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
    closing: tuple[Segment, ...]
    """What a chat template puts around the output: its special tokens end it."""

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
        for scored, run in groupby(document.segments, key=lambda segment: segment.weight > 0):
            segments = tuple(run)
            if scored and before:
                markup = tuple(segment for segment in segments if segment.markup)
                text = "".join(segment.text for segment in segments if not segment.markup)
                yield GenerationPair(document.id, before, text, markup)
            before += segments


def prompt_ids(
    pair: GenerationPair, tokenizer: Tokenizer, model: Decoder | EncoderDecoder
) -> list[int]:
    """What the model reads, as it was trained on pairs.

    That is the input after BOS, and for an encoder-decoder before EOS, where the tokenizer has
    them.
    """
    ids: list[int] = encode_segments(pair.prompt, tokenizer).ids.tolist()
    if tokenizer.bos_id is not None and ids[:1] != [tokenizer.bos_id]:
        ids = [tokenizer.bos_id, *ids]
    if isinstance(model, EncoderDecoder) and tokenizer.eos_id is not None:
        ids.append(tokenizer.eos_id)
    return ids


def closing_ids(pairs: Sequence[GenerationPair], tokenizer: Tokenizer) -> tuple[int, ...]:
    """Special tokens that close the outputs, such as ``<|im_end|>``."""
    segments = tuple({segment.text: segment for pair in pairs for segment in pair.closing}.values())
    ids = encode_segments(segments, tokenizer).ids.tolist() if segments else []
    return tuple(sorted(tokenizer.special_ids.intersection(ids)))

"""Continuing texts: the tokenizer on either side of decoding."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from jax_lm.errors import UsageError
from jax_lm.generation.continuing import continue_ids
from jax_lm.generation.decode import DecodeOptions
from jax_lm.generation.requests import Finish
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.models.decoder import Decoder
from jax_lm.models.encoder_decoder import EncoderDecoder
from jax_lm.tokenizers.base import Tokenizer, start_id

Hear = Callable[[int, str], None]
"""Told the number of a prompt and the next piece of its continuation: whole characters."""


class Continuation(NamedTuple):
    """A text and what the model wrote after it."""

    prompt: str
    text: str
    """The new part alone, without what ended it."""
    num_tokens: int
    """New tokens, without the one that ended the text."""
    finish_reason: Finish
    """``stop``: a token or a string ended it; ``length``: it is as long as it may be."""


def continue_texts(
    model: Decoder | EncoderDecoder,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    config: SamplingConfig,
    *,
    parse_special: bool = False,
    notice: Callable[[str], None] | None = None,
    hear: Hear | None = None,
    options: DecodeOptions | None = None,
) -> list[Continuation]:
    """Continue texts in batches; an empty one starts as a document does (BOS, else EOS).

    Args:
        model: whose vocabulary is the tokenizer's; an encoder-decoder reads the prompt, between
            BOS and EOS, and writes its output.
        tokenizer: spells prompts and continuations.
        prompts: the same one several times gives different samples of it.
        config: how tokens are drawn, and how many.
        parse_special: read strings such as ``<usr>`` in prompts as special tokens, not as text.
        notice: told once when a prompt is cut or the context is full.
        hear: told of every piece of text as it is drawn.
        options: how it is computed.

    Raises:
        UsageError: a prompt is empty, and the tokenizer has neither BOS nor EOS.
        JaxLMError: a prompt has a character that the vocabulary cannot spell.
    """
    apart = isinstance(model, EncoderDecoder)
    encoded = encode_prompts(tokenizer, prompts, parse_special=parse_special, inputs=apart)

    def heard(number: int, piece: str) -> None:
        if hear is not None and piece:
            hear(number, piece)

    found = continue_ids(
        model, tokenizer, encoded, config, notice=notice, heard=heard, options=options
    )
    return [Continuation(prompt, *one) for prompt, one in zip(prompts, found, strict=True)]


def encode_prompts(
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    *,
    parse_special: bool = False,
    inputs: bool = False,
) -> list[list[int]]:
    """Ids of each prompt, never none.

    Args:
        tokenizer: cuts them.
        prompts: an empty one starts as a document does.
        parse_special: read strings such as ``<usr>`` as special tokens.
        inputs: they are an encoder-decoder's, between BOS and EOS as the objective has them.

    Raises:
        UsageError: a prompt is empty, and the tokenizer has neither BOS nor EOS.
        JaxLMError: a prompt has a character that the vocabulary cannot spell.
    """
    ids, offsets, _ = tokenizer.encode_batch(prompts, parse_special=parse_special)
    start = start_id(tokenizer)
    before, after = ([] if one is None else [one] for one in (tokenizer.bos_id, tokenizer.eos_id))
    encoded = []
    for i in range(len(prompts)):
        prompt: list[int] = ids[offsets[i] : offsets[i + 1]].tolist()
        if inputs:
            prompt = [*before, *prompt, *after]
        if not prompt:
            if start is None:
                raise UsageError(
                    "an empty prompt needs a tokenizer with a BOS or EOS token to start from, "
                    "and this one has neither: write a prompt"
                )
            prompt.append(start)
        encoded.append(prompt)
    return encoded

"""The best continuations of texts, by beam search."""

from collections.abc import Sequence

from jax_lm.generation.beam import Beam, BeamConfig, beam_search
from jax_lm.generation.decode import DecodeOptions
from jax_lm.generation.streaming import TextStream
from jax_lm.generation.text import Continuation, encode_prompts
from jax_lm.models.decoder import Decoder
from jax_lm.models.encoder_decoder import EncoderDecoder
from jax_lm.tokenizers.base import Tokenizer


def search_texts(
    model: Decoder | EncoderDecoder,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    config: BeamConfig,
    *,
    stop: tuple[str, ...] = (),
    parse_special: bool = False,
    options: DecodeOptions | None = None,
) -> list[Continuation]:
    """The best continuations of each prompt, ``config.num_returns`` after one another.

    Args:
        model: whose vocabulary is the tokenizer's; an encoder-decoder reads the prompt, between
            BOS and EOS, and writes its output.
        tokenizer: spells prompts and continuations.
        prompts: an empty one starts as a document does (BOS, else EOS).
        config: how continuations are searched for.
        stop: text that a continuation is cut at; the search itself goes on.
        parse_special: read strings such as ``<usr>`` in prompts as special tokens, not as text.
        options: batch size and dtype.

    Raises:
        UsageError: a prompt is empty, and the tokenizer has neither BOS nor EOS; or one is longer
            than the model's context.
        JaxLMError: a prompt has a character that the vocabulary cannot spell.
    """
    options = options or DecodeOptions()
    apart = isinstance(model, EncoderDecoder)
    encoded = encode_prompts(tokenizer, prompts, parse_special=parse_special, inputs=apart)
    found = beam_search(
        model,
        encoded,
        config,
        eos_id=tokenizer.eos_id,
        batch_size=options.batch_size,
        dtype=options.dtype,
    )
    return [
        _continuation(prompt, beam, TextStream(tokenizer, [] if apart else ids, stop))
        for prompt, ids, beams in zip(prompts, encoded, found, strict=True)
        for beam in beams
    ]


def _continuation(prompt: str, beam: Beam, stream: TextStream) -> Continuation:
    for token in beam.ids:
        stream.push(token)
    stream.finish()
    finish = "stop" if stream.stopped else beam.finish
    return Continuation(prompt, stream.text, len(beam.ids), finish)

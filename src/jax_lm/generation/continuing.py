"""Texts that a model writes after ids, whether they are drawn or searched for."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from jax_lm.generation.beam import Beam, BeamConfig, beam_search
from jax_lm.generation.decode import DecodeOptions, write
from jax_lm.generation.requests import Finish
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.generation.streaming import TextStream
from jax_lm.models.decoder import Decoder
from jax_lm.models.encoder_decoder import EncoderDecoder
from jax_lm.tokenizers.base import Tokenizer

Heard = Callable[[int, str], object]
"""Told, token by token, the number of a prompt and the next piece of its text, empty perhaps."""


class Continued(NamedTuple):
    """What follows a prompt."""

    text: str
    """The new part alone, without what ended it."""
    num_tokens: int
    """New tokens, without the one that ended the text; with those of a string that did."""
    finish: Finish
    """``stop``: a token or a string ended it; ``length``: it is as long as it may be."""


class _Texts:
    """Texts that grow by ids, each up to a stop string."""

    def __init__(self, streams: Sequence[TextStream], heard: Heard) -> None:
        self._streams, self._heard = streams, heard
        self._num_tokens = [0] * len(streams)

    def listen(self, number: int, token_id: int) -> bool:
        """Take the next token of a text; whether a stop string is complete with it."""
        self._num_tokens[number] += 1
        self._heard(number, self._streams[number].push(token_id))
        return self._streams[number].stopped

    def finished(self, reasons: Sequence[Finish]) -> list[Continued]:
        """All of them; a stop string goes before the reasons that decoding gives."""
        done = []
        for number, (stream, reason) in enumerate(zip(self._streams, reasons, strict=True)):
            if rest := stream.finish():
                self._heard(number, rest)
            finish: Finish = "stop" if stream.stopped else reason
            done.append(Continued(stream.text, self._num_tokens[number], finish))
        return done


def continue_ids(
    model: Decoder | EncoderDecoder,
    tokenizer: Tokenizer,
    prompts: Sequence[Sequence[int]],
    config: SamplingConfig | BeamConfig,
    *,
    stop: tuple[str, ...] = (),
    notice: Callable[[str], None] | None = None,
    heard: Heard = lambda number, piece: None,
    options: DecodeOptions | None = None,
) -> list[Continued]:
    """The text that follows each prompt, up to a stop string.

    Args:
        model: whose vocabulary is the tokenizer's.
        tokenizer: spells the texts.
        prompts: ids that the model reads; of a decoder, the text goes on from them.
        config: texts are drawn, or the best ones are searched for, ``num_returns`` of a prompt.
        stop: strings that end a text and are not part of it, as those of ``config`` are; a search
            itself goes on.
        notice: told once when a prompt is cut or the context is full.
        heard: told of every token's text as it is drawn.
        options: how it is computed; a search has no mesh.

    Raises:
        UsageError: a prompt is empty, or too long for a search.
    """
    options = options or DecodeOptions()
    before = [[] if isinstance(model, EncoderDecoder) else ids for ids in prompts]
    if isinstance(config, BeamConfig):
        before = [ids for ids in before for _ in range(config.num_returns)]
        texts = _Texts([TextStream(tokenizer, ids, stop) for ids in before], heard)
        beams = _searched(model, tokenizer, prompts, config, options)
        for number, beam in enumerate(beams):
            any(texts.listen(number, token) for token in beam.ids)  # up to the one that ends it
        return texts.finished([beam.finish for beam in beams])
    stop = (*config.stop, *stop)
    texts = _Texts([TextStream(tokenizer, ids, stop) for ids in before], heard)
    written = write(
        model,
        prompts,
        replace(config, stop=()),
        eos_id=tokenizer.eos_id,
        notice=notice,
        listen=texts.listen,
        options=options,
    )
    return texts.finished([one.finish for one in written])


def _searched(
    model: Decoder | EncoderDecoder,
    tokenizer: Tokenizer,
    prompts: Sequence[Sequence[int]],
    config: BeamConfig,
    options: DecodeOptions,
) -> list[Beam]:
    """The best of each prompt after one another."""
    found = beam_search(
        model,
        prompts,
        config,
        eos_id=tokenizer.eos_id,
        batch_size=options.batch_size,
        dtype=options.dtype,
        advance=options.advance,
    )
    return [beam for beams in found for beam in beams]

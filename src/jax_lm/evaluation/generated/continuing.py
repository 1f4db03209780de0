"""Texts that a model writes after ids, whether they are drawn or searched for."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
from jax.sharding import Mesh

from jax_lm.generation.beam import BeamConfig, beam_search
from jax_lm.generation.decode import DecodeOptions, Written, write
from jax_lm.generation.requests import Finish
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.generation.streaming import TextStream
from jax_lm.models.decoder import Decoder
from jax_lm.models.encoder_decoder import EncoderDecoder
from jax_lm.pretrained import OpenedModel
from jax_lm.sharding.mesh import make_mesh


class Continued(NamedTuple):
    """What follows a prompt."""

    text: str
    num_tokens: int
    finish: Finish


def usual_mesh() -> Mesh | None:
    """All devices, or None where there is one alone."""
    return make_mesh() if jax.device_count() > 1 else None


def continued(
    opened: OpenedModel,
    prompts: Sequence[Sequence[int]],
    config: SamplingConfig | BeamConfig,
    options: DecodeOptions,
    *,
    stop: tuple[str, ...] = (),
    advance: Callable[[int], object] = lambda count: None,
) -> list[Continued]:
    """The text that follows each prompt, up to a stop string.

    Args:
        opened: a decoder or an encoder-decoder, with its tokenizer.
        prompts: ids that the model reads.
        config: texts are drawn, or the best one is searched for.
        options: how it is computed; a search has no mesh.
        stop: strings that end a text and are not part of it; a search itself goes on.
        advance: told how many more tokens there are.
    """
    model, tokenizer = opened.model, opened.tokenizer
    assert isinstance(model, Decoder | EncoderDecoder)
    apart = isinstance(model, EncoderDecoder)
    streams = [TextStream(tokenizer, [] if apart else ids, stop) for ids in prompts]

    def listen(number: int, token_id: int) -> bool:
        advance(1)
        streams[number].push(token_id)
        return streams[number].stopped

    if isinstance(config, SamplingConfig):
        found = write(
            model, prompts, config, eos_id=tokenizer.eos_id, listen=listen, options=options
        )
    else:
        found = _searched(opened, prompts, config, options)
        for number, one in enumerate(found):
            for token in one.ids:
                listen(number, token)
    for stream in streams:
        stream.finish()
    return [
        Continued(stream.text, len(one.ids), "stop" if stream.stopped else one.finish)
        for stream, one in zip(streams, found, strict=True)
    ]


def _searched(
    opened: OpenedModel,
    prompts: Sequence[Sequence[int]],
    config: BeamConfig,
    options: DecodeOptions,
) -> list[Written]:
    model = opened.model
    assert isinstance(model, Decoder | EncoderDecoder)
    searched = beam_search(
        model,
        prompts,
        config,
        eos_id=opened.tokenizer.eos_id,
        batch_size=options.batch_size,
        dtype=options.dtype,
    )
    return [Written(beams[0].ids, beams[0].finish) for beams in searched]

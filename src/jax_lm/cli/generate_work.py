"""What ``jax-lm generate`` does with a model: opens it, and has it write."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from jax_lm.chat.terminal import printable
from jax_lm.cli.generate_arguments import Arguments
from jax_lm.client.remote_texts import continue_remotely, stream_remotely
from jax_lm.client.server_client import ServerClient
from jax_lm.errors import JaxLMError
from jax_lm.generation.beam_text import search_texts
from jax_lm.generation.decode import DecodeOptions
from jax_lm.generation.text import Continuation, Hear, continue_texts
from jax_lm.models.decoder import Decoder
from jax_lm.models.encoder_decoder import EncoderDecoder
from jax_lm.pretrained import OpenedModel, open_model
from jax_lm.sharding.mesh import make_mesh
from jax_lm.sharding.rules import on_mesh, rules_of, state_shardings
from jax_lm.trackers.console import Progress
from jax_lm.training.compilation import use_compilation_cache


class Texts(NamedTuple):
    """What the model writes, each prompt's samples after one another."""

    written: list[Continuation]
    apart: bool
    """They are an encoder-decoder's outputs, and do not go on from the prompts."""


def written_texts(given: Arguments, prompts: Sequence[str], hear: Hear | None) -> Texts:
    """Have a model write, here or behind a server."""
    if given.url is not None:
        return Texts(_written_remotely(given, given.url, prompts, hear), apart=False)
    assert given.model is not None
    use_compilation_cache("auto", note)
    mesh, rules = make_mesh(given.mesh), rules_of(given.mesh)
    with on_mesh(mesh, given.mesh):
        opened = open_model(given.model, lambda whole: state_shardings(whole, whole, mesh, rules))
        if not isinstance(opened.model, Decoder | EncoderDecoder):
            config = opened.model.config
            raise JaxLMError(
                f"{given.model}: {config.family} is of kind {config.kind}, and only decoders and "
                "encoder-decoders write text"
            )
        apart = isinstance(opened.model, EncoderDecoder)
        with _counted(len(prompts) * given.num_samples) as advance:
            options = DecodeOptions(batch_size=given.batch_size, dtype=given.dtype, advance=advance)
            return Texts(_written(given, opened, prompts, hear, options), apart)


@contextmanager
def _counted(count: int) -> Iterator[Callable[[int], object]]:
    """Shows how many of several texts are written."""
    if count == 1:
        yield lambda ended: None
        return
    with Progress(count, "texts", label="written").measure_from_start() as progress:
        yield progress.update


def _written(
    given: Arguments,
    opened: OpenedModel,
    prompts: Sequence[str],
    hear: Hear | None,
    options: DecodeOptions,
) -> list[Continuation]:
    model, tokenizer, special = opened.model, opened.tokenizer, given.parse_special_tokens
    assert isinstance(model, Decoder | EncoderDecoder)
    if given.num_beams != 1:
        return search_texts(
            model,
            tokenizer,
            prompts,
            given.beam,
            stop=given.stop,
            parse_special=special,
            options=options,
        )
    rows = [prompt for prompt in prompts for _ in range(given.num_samples)]
    if hear is not None and isinstance(model, Decoder):
        print(rows[0], end="", flush=True)
    return continue_texts(
        model,
        tokenizer,
        rows,
        given,
        parse_special=special,
        notice=note,
        hear=hear,
        options=options,
    )


def _written_remotely(
    given: Arguments, url: str, prompts: Sequence[str], hear: Hear | None
) -> list[Continuation]:
    client = ServerClient(url, os.environ.get("JAX_LM_TOKEN"))
    if hear is not None:
        print(prompts[0], end="", flush=True)
        return [stream_remotely(client, prompts[0], given, partial(hear, 0))]
    copies, at_once = given.num_samples, given.batch_size
    return continue_remotely(client, prompts, given, copies=copies, at_once=at_once)


def show(number: int, piece: str) -> None:
    """Print a piece of the only text at once."""
    print(_shown(piece), end="", flush=True)


def print_all(texts: Texts, copies: int) -> None:
    """Print all texts, each under a title where there are several."""
    for i, one in enumerate(texts.written):
        if len(texts.written) > 1:
            number, copy = divmod(i, copies)
            print(f"=== prompt {number + 1}, sample {copy + 1} of {copies} ===")
        print(_shown(one.text if texts.apart else one.prompt + one.text))


def _shown(text: str) -> str:
    """What a model writes must not command the terminal; a file or a pipe gets it as it is."""
    return printable(text) if sys.stdout.isatty() else text


def note(message: str) -> None:
    """Say something beside the texts."""
    print(f"jax-lm generate: {message}", file=sys.stderr)

"""What ``jax-lm generate`` does with a model: opens it, and has it write."""

import os
import sys
from collections.abc import Sequence
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
from jax_lm.pretrained import open_model
from jax_lm.sharding.mesh import make_mesh
from jax_lm.sharding.rules import on_mesh, rules_of, state_shardings
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
    options = DecodeOptions(batch_size=given.batch_size, dtype=given.dtype)
    special = given.parse_special_tokens
    with on_mesh(mesh, given.mesh):
        opened = open_model(given.model, lambda whole: state_shardings(whole, whole, mesh, rules))
        model, tokenizer = opened.model, opened.tokenizer
        if not isinstance(model, Decoder | EncoderDecoder):
            raise JaxLMError(
                f"{given.model}: {model.config.family} is of kind {model.config.kind}, and only "
                "decoders and encoder-decoders write text"
            )
        apart = isinstance(model, EncoderDecoder)
        if given.num_beams != 1:
            found = search_texts(
                model,
                tokenizer,
                prompts,
                given.beam,
                stop=given.stop,
                parse_special=special,
                options=options,
            )
            return Texts(found, apart)
        rows = [prompt for prompt in prompts for _ in range(given.num_samples)]
        if hear is not None and not apart:
            print(rows[0], end="", flush=True)
        written = continue_texts(
            model,
            tokenizer,
            rows,
            given,
            parse_special=special,
            notice=note,
            hear=hear,
            options=options,
        )
        return Texts(written, apart)


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

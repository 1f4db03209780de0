"""``jax-lm generate``: continue prompts."""

import sys
import time
from collections.abc import Sequence

from jax_lm.cli.arguments import parse
from jax_lm.cli.generate_arguments import DESCRIPTION, Arguments
from jax_lm.errors import JaxLMError, UsageError
from jax_lm.files.atomic import write_text
from jax_lm.generation.beam_text import search_texts
from jax_lm.generation.decode import DecodeOptions
from jax_lm.generation.prompts import all_prompts, as_json_line
from jax_lm.generation.text import Continuation, Hear, continue_texts
from jax_lm.models.decoder import Decoder
from jax_lm.models.encoder_decoder import EncoderDecoder
from jax_lm.pretrained import open_model
from jax_lm.sharding.mesh import make_mesh
from jax_lm.sharding.rules import on_mesh, rules_of, state_shardings


def main(args: list[str]) -> None:
    """Run ``jax-lm generate``."""
    given = parse(Arguments, args, "jax-lm generate", DESCRIPTION)
    prompts = all_prompts(given.prompt, given.prompt_file, given.prompts)
    one = len(prompts) * given.num_samples == 1
    if given.stream and not one:
        raise UsageError("--stream shows one text as it is drawn: give one prompt, one sample")
    if given.output is not None and not given.output.parent.is_dir():
        raise JaxLMError(f"{given.output}: no such directory {given.output.parent}: create it")
    to_terminal = sys.stdout.isatty() and given.output is None and given.num_beams == 1
    streams = given.stream or (one and to_terminal)
    started = time.perf_counter()
    written = _written(given, prompts, _show if streams else None)
    seconds = time.perf_counter() - started
    if streams:
        print()
    elif given.output is not None:
        write_text(given.output, "".join(as_json_line(one._asdict()) for one in written))
        _note(f"{len(written)} continuations written to {given.output}")
    else:
        _print_all(written, given.num_samples)
    count = sum(one.num_tokens for one in written)
    _note(f"{count:,} tokens in {seconds:.1f} s: {count / seconds:,.0f} a second, with compiling")


def _written(given: Arguments, prompts: Sequence[str], hear: Hear | None) -> list[Continuation]:
    """What the model writes, each prompt's samples after one another."""
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
            notice=_note,
            hear=hear,
            options=options,
        )


def _show(number: int, piece: str) -> None:
    print(piece, end="", flush=True)


def _print_all(written: Sequence[Continuation], copies: int) -> None:
    for i, one in enumerate(written):
        if len(written) > 1:
            number, copy = divmod(i, copies)
            print(f"=== prompt {number + 1}, sample {copy + 1} of {copies} ===")
        print(one.prompt + one.text)


def _note(message: str) -> None:
    print(f"jax-lm generate: {message}", file=sys.stderr)

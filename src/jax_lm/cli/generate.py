"""``jax-lm generate``: continue prompts."""

import sys
import time

from jax_lm.cli.arguments import parse
from jax_lm.cli.generate_arguments import DESCRIPTION, Arguments
from jax_lm.cli.generate_work import note, print_all, show, written_texts
from jax_lm.errors import JaxLMError, UsageError
from jax_lm.files.atomic import write_text
from jax_lm.generation.prompts import all_prompts, as_json_line


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
    texts = written_texts(given, prompts, show if streams else None)
    seconds = time.perf_counter() - started
    if streams:
        print()
    elif given.output is not None:
        write_text(given.output, "".join(as_json_line(one._asdict()) for one in texts.written))
        note(f"{len(texts.written)} continuations written to {given.output}")
    else:
        print_all(texts, given.num_samples)
    count = sum(one.num_tokens for one in texts.written)
    note(f"{count:,} tokens in {seconds:.1f} s: {count / seconds:,.0f} a second, with compiling")

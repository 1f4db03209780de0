"""``jax-lm generate``: continue prompts."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from jax_lm.cli.arguments import parse
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.generation.text import all_prompts, continue_texts
from jax_lm.pretrained import open_decoder

DESCRIPTION = """Continue a prompt: prints it and what the model writes after it.

Example: jax-lm generate runs/quickstart --prompt "def main(" --max-new-tokens 200 --num-samples 2
"""


@dataclass(frozen=True, kw_only=True)
class Arguments(SamplingConfig):
    """What to continue, and how."""

    model: tyro.conf.Positional[str]
    """A run directory, RUN@STEP or a Hugging Face directory."""
    prompt: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Text to continue; may be given several times. "" starts a new document."""
    prompt_file: Path | None = None
    """One more prompt: the text of this file, without its last line break."""
    num_samples: int = 1
    """Continuations of each prompt, all in one batch."""
    parse_special_tokens: bool = False
    """Read strings such as <usr> in prompts as special tokens, not as text."""


def main(args: list[str]) -> None:
    """Run ``jax-lm generate``."""
    given = parse(Arguments, args, "jax-lm generate", DESCRIPTION)
    rows = all_prompts(given.prompt, given.prompt_file, given.num_samples)
    model, tokenizer = open_decoder(given.model)
    started = time.perf_counter()
    special = given.parse_special_tokens
    samples = continue_texts(model, tokenizer, rows, given, parse_special=special, notice=_note)
    seconds = time.perf_counter() - started
    for i, sample in enumerate(samples):
        if len(samples) > 1:
            number, copy = divmod(i, given.num_samples)
            print(f"=== prompt {number + 1}, sample {copy + 1} of {given.num_samples} ===")
        print(sample.prompt + sample.text)
    count = sum(sample.num_tokens for sample in samples)
    _note(f"{count:,} tokens in {seconds:.1f} s: {count / seconds:,.0f} a second, with compiling")


def _note(message: str) -> None:
    print(f"jax-lm generate: {message}", file=sys.stderr)

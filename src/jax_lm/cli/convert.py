"""``jax-lm convert``: Hugging Face <-> ours, in either direction."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from jax_lm.cli.arguments import parse
from jax_lm.errors import UsageError
from jax_lm.pretrained.converting import ConvertOptions, convert

DESCRIPTION = """Convert a model between Hugging Face's layout and ours; what is written is read
back and compared bit by bit before it gets its name.

Example: jax-lm convert runs/quickstart@1000 exported --dtype bfloat16
"""
UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


@dataclass(frozen=True, kw_only=True)
class Arguments(ConvertOptions):
    """What to convert, and to what."""

    model: tyro.conf.Positional[str]
    """A run directory, RUN@STEP, a Hugging Face directory or name, LLaMA's own files, or a
    directory that this verb wrote."""
    output: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="OUTPUT")]
    """The directory to write."""
    max_shard_size: str = "5GB"
    """Most that one safetensors file holds, such as 500MB; larger models fill several files."""


def main(args: list[str]) -> None:
    """Run ``jax-lm convert``."""
    given = parse(Arguments, args, "jax-lm convert", DESCRIPTION)
    fields = {name: getattr(given, name) for name in vars(ConvertOptions())}
    convert(
        given.model,
        given.output,
        ConvertOptions(**fields),
        max_shard_size=_bytes(given.max_shard_size),
    )


def _bytes(size: str) -> int:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]B|)", size.strip().upper())
    if match is None or float(match[1]) == 0:
        raise UsageError(f"--max-shard-size is {size!r}, expected a size such as 500MB or 5GB")
    return int(float(match[1]) * UNITS[match[2]])

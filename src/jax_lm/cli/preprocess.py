"""``jax-lm preprocess``: documents -> Parquet features."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from jax_lm.cli.arguments import parse
from jax_lm.preprocessing.describe import describe
from jax_lm.preprocessing.manifest import tokenizer_directory
from jax_lm.preprocessing.options import PreprocessOptions
from jax_lm.preprocessing.pipeline import preprocess
from jax_lm.tokenizers.pretrained import load_tokenizer

DESCRIPTION = """Cut documents into rows of token ids, as Parquet files. An interrupted run
continues where it stopped when the same command is given again.

example: jax-lm preprocess books/*.txt --tokenizer tokenizer --output features/train"""


@dataclass(frozen=True, kw_only=True)
class Arguments(PreprocessOptions):
    """Flags of ``jax-lm preprocess``."""

    spec: tyro.conf.Positional[tuple[str, ...]]
    """Where the documents are: files, directories, globs, stdlib ..."""
    tokenizer: Path
    """Directory or file of the tokenizer, or its name on the hub."""
    output: Annotated[str, tyro.conf.arg(aliases=["--output-path"], metavar="PREFIX")]
    """Files are named PREFIX-00000-of-00008.parquet."""


def main(args: list[str]) -> None:
    """Run the verb."""
    given = parse(Arguments, args, "jax-lm preprocess", DESCRIPTION)
    manifest = preprocess(given.spec, given.tokenizer, given.output, given)
    tokenizer = load_tokenizer(tokenizer_directory(given.output))
    print("\n".join(describe(given.output, manifest, tokenizer)))

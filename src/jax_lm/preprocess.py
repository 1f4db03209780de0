"""``python -m jax_lm.preprocess``: the command line of codertimo's jax-lm-training, kept.

Its flags and their defaults mean what they did there; the work is ``jax-lm preprocess --mode
windows``. Not to be confused with the package ``jax_lm.preprocessing``, which does that work.
"""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import tyro

from jax_lm.cli.arguments import flags_of
from jax_lm.cli.main import guarded, leave
from jax_lm.errors import UsageError, nearest
from jax_lm.preprocessing.beam import unknown_flags
from jax_lm.preprocessing.cutting.base import IGNORED_LABEL
from jax_lm.preprocessing.describe import describe
from jax_lm.preprocessing.manifest import tokenizer_directory
from jax_lm.preprocessing.options import PreprocessOptions
from jax_lm.preprocessing.pipeline import preprocess
from jax_lm.tokenizers.pretrained import load_tokenizer

PROG = "python -m jax_lm.preprocess"
DESCRIPTION = """Cut the rows of a Hugging Face data set into windows of token ids, as Parquet
files. Flags of Apache Beam's own are passed on to it. `jax-lm preprocess` does more.

example: python -m jax_lm.preprocess --dataset-split-type train --output-path data/wikitext.train
--direct_running_mode multi_processing --direct_num_workers 0"""


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Flags of ``python -m jax_lm.preprocess``."""

    tokenizer_model: str = "gpt2"
    """Name on the Hugging Face hub, or directory, of the tokenizer."""
    min_sequence_length: int = 128
    """Leave out windows that offer fewer targets, special tokens included."""
    max_sequence_length: int = 256
    """Tokens of a row."""
    num_special_token_reserved: int = 2
    """Places of a row kept for BOS and EOS."""
    ignore_label: int = IGNORED_LABEL
    """Label of padding; the files mark it by -100 alone."""
    stride: int = 128
    """Tokens from a window's start to the next."""
    dataset_name: str = "wikitext"
    """Name on the Hugging Face hub, or directory, of the data set; each row is a document."""
    dataset_sub_name: str = "wikitext-103-v1"
    """Configuration of the data set; empty: its only one."""
    dataset_split_type: str = "test"
    """Split of the data set."""
    output_path: Annotated[str, tyro.conf.arg(aliases=["--output"])] = "data/wikitext"
    """Files are named PREFIX-00000-of-00008.parquet."""
    max_documents: int | None = None
    """Read no more than the first so many rows."""
    seed_compatible: bool = False
    """Give exactly the rows of the original program, which took every id 0 for padding (a real
    "!" in GPT-2's vocabulary) and special tokens in the text for special."""
    overwrite: bool = False
    """Replace a set that is already there."""


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    return guarded(_run, list(sys.argv[1:] if argv is None else argv))


def _run(args: list[str]) -> int:
    given, others = tyro.cli(
        Arguments, args=args, prog=PROG, description=DESCRIPTION, return_unknown_args=True
    )
    options = _options(given, _for_beam(others))
    tokenizer = Path(given.tokenizer_model)
    manifest = preprocess(_spec(given), tokenizer, given.output_path, options)
    kept = load_tokenizer(tokenizer_directory(given.output_path))
    sys.stdout.write("\n".join(describe(given.output_path, manifest, kept)) + "\n")
    return 0


def _options(given: Arguments, beam_options: str) -> PreprocessOptions:
    if given.ignore_label != IGNORED_LABEL:
        raise UsageError(
            f"--ignore-label is {given.ignore_label}, but feature files mark what is not scored "
            f"by {IGNORED_LABEL} alone: leave the flag out"
        )
    return PreprocessOptions(
        mode="windows",
        max_sequence_length=given.max_sequence_length,
        min_sequence_length=given.min_sequence_length,
        num_special_tokens=given.num_special_token_reserved,
        stride=given.stride,
        seed_compatible=given.seed_compatible,
        parse_special_tokens=given.seed_compatible,
        max_documents=given.max_documents,
        beam_options=beam_options,
        overwrite=given.overwrite,
    )


def _for_beam(words: list[str]) -> str:
    """Beam's flags as one string.

    Raises:
        UsageError: neither this program nor Beam has one of the flags.
    """
    if unknown := unknown_flags(words):
        flag = unknown[0].split("=", 1)[0]
        close = nearest(flag.replace("_", "-"), flags_of(Arguments))
        raise UsageError(f"neither {PROG} nor Apache Beam has a flag {flag}{close}")
    return shlex.join(words)


def _spec(given: Arguments) -> str:
    config = f":{given.dataset_sub_name}" if given.dataset_sub_name else ""
    query = urlencode({"split": given.dataset_split_type, "text": "text"})
    return f"hf-dataset:{given.dataset_name}{config}?{query}"


if __name__ == "__main__":
    sys.exit(leave(main()))

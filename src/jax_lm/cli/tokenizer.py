"""``jax-lm tokenizer train|show``: learn a tokenizer, or look at how it cuts a text."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from jax_lm.cli.actions import Action, run_action
from jax_lm.cli.arguments import parse
from jax_lm.cli.source_arguments import SourceArguments
from jax_lm.documents.base import iterate_texts
from jax_lm.tokenizers.pretrained import load_tokenizer
from jax_lm.tokenizers.showing import tokenizer_lines
from jax_lm.tokenizers.training import TrainingSettings, train_to_directory

TRAIN = "Learn a tokenizer. Example: jax-lm tokenizer train corpus/ --vocab-size 4096 --output tok"
SHOW = "Look at a tokenizer. Example: jax-lm tokenizer show tok --text 'How is this cut?' --ids"


@dataclass(frozen=True, kw_only=True)
class TrainArguments(TrainingSettings, SourceArguments):
    """Flags of ``tokenizer train``."""

    output: Annotated[Path, tyro.conf.arg(aliases=["--output-path"])]
    """Directory to write."""
    overwrite: bool = False
    """Replace the tokenizer that is there."""


@dataclass(frozen=True, kw_only=True)
class ShowArguments:
    """Flags of ``tokenizer show``."""

    tokenizer: tyro.conf.Positional[Path]
    """Directory with a tokenizer.json, or such a file."""
    text: str | None = None
    """Show how this text is cut; without it, the vocabulary."""
    ids: bool = False
    """One line a token, with its id."""


def main(args: list[str]) -> None:
    """Run ``tokenizer train`` or ``tokenizer show``."""
    run_action("tokenizer", ACTIONS, args)


def _train(args: list[str], prog: str, description: str) -> None:
    given = parse(TrainArguments, args, prog, description)
    texts = iterate_texts(given.open())
    print(*train_to_directory(texts, given, given.output, given.overwrite), sep="\n")


def _show(args: list[str], prog: str, description: str) -> None:
    given = parse(ShowArguments, args, prog, description)
    print(*tokenizer_lines(load_tokenizer(given.tokenizer), given.text, given.ids), sep="\n")


ACTIONS = {"train": Action(_train, TRAIN), "show": Action(_show, SHOW)}

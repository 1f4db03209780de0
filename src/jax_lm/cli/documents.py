"""``jax-lm documents info|show``: look at the documents of a source."""

import sys
from dataclasses import dataclass
from typing import Annotated

import tyro

from jax_lm.cli.actions import Action, run_action
from jax_lm.cli.arguments import parse
from jax_lm.cli.source_arguments import SourceArguments
from jax_lm.documents.showing import document_at, document_lines
from jax_lm.documents.statistics import report

INFO = "Count documents and bytes. Example: jax-lm documents info 'corpus/*.jsonl?text=body'"
SHOW = "Print one document. Example: jax-lm documents show stdlib?split=validation -i 3"


@dataclass(frozen=True, kw_only=True)
class ShowArguments(SourceArguments):
    """Flags of ``documents show``."""

    index: Annotated[int, tyro.conf.arg(aliases=["-i"])] = 0
    """Which document, counting from 0."""
    max_characters: int = 2000
    """Characters shown of each segment; 0 shows all."""


def main(args: list[str]) -> None:
    """Run ``documents info`` or ``documents show``."""
    run_action("documents", ACTIONS, args)


def _info(args: list[str], prog: str, description: str) -> None:
    given = parse(SourceArguments, args, prog, description)
    print(*report(given.open()), sep="\n")


def _show(args: list[str], prog: str, description: str) -> None:
    given = parse(ShowArguments, args, prog, description)
    document = document_at(given.open(), given.index)
    print(*document_lines(document, given.max_characters, sys.stdout.isatty()), sep="\n")


ACTIONS = {"info": Action(_info, INFO), "show": Action(_show, SHOW)}

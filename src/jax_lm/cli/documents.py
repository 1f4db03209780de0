"""``jax-lm documents info|show|build|export|verify``: look at documents, and store them."""

import sys
from dataclasses import dataclass
from typing import Annotated

import tyro

from jax_lm.cli.actions import Action, run_action
from jax_lm.cli.arguments import parse
from jax_lm.cli.document_stores import STORE_ACTIONS
from jax_lm.cli.source_arguments import SourceArguments
from jax_lm.documents.showing import document_lines
from jax_lm.documents.statistics import report
from jax_lm.documents.stores.describing import store_lines
from jax_lm.documents.stores.random_access import any_document_at, is_store

INFO = "Count documents and bytes. Example: jax-lm documents info 'corpus/*.jsonl?text=body'"
SHOW = "Print one document. Example: jax-lm documents show stdlib?split=validation -i 3"


@dataclass(frozen=True, kw_only=True)
class ShowArguments(SourceArguments):
    """Flags of ``documents show``."""

    index: Annotated[int, tyro.conf.arg(aliases=["-i"])] = 0
    """Which document, counting from 0."""
    show_characters: int = 2000
    """Characters shown of each segment; 0 shows all."""


def main(args: list[str]) -> None:
    """Run one of the verb's parts."""
    run_action("documents", ACTIONS, args)


def _info(args: list[str], prog: str, description: str) -> None:
    source = parse(SourceArguments, args, prog, description).open()
    print(*(store_lines(source) if is_store(source) else report(source)), sep="\n")


def _show(args: list[str], prog: str, description: str) -> None:
    given = parse(ShowArguments, args, prog, description)
    document = any_document_at(given.open(), given.index)
    print(*document_lines(document, given.show_characters, sys.stdout.isatty()), sep="\n")


ACTIONS = {"info": Action(_info, INFO), "show": Action(_show, SHOW), **STORE_ACTIONS}

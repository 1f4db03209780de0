"""``jax-lm documents info|show``: look at the documents of a source."""

import sys
from dataclasses import dataclass
from typing import Annotated

import tyro

from jax_lm.cli.actions import Action, run_action
from jax_lm.cli.arguments import parse
from jax_lm.documents.base import DocumentSource
from jax_lm.documents.open import open_source
from jax_lm.documents.showing import document_at, document_lines
from jax_lm.documents.statistics import report

INFO = "Count documents and bytes. Example: jax-lm documents info 'corpus/*.jsonl?text=body'"
SHOW = "Print one document. Example: jax-lm documents show stdlib?split=validation -i 3"


@dataclass(frozen=True, kw_only=True)
class InfoArguments:
    """Flags of ``documents info``."""

    spec: tyro.conf.Positional[tuple[str, ...]]
    """stdlib, or paths, globs and directories of .txt and .jsonl files."""
    lines: bool = False
    """A .txt file holds one document a line."""
    max_documents: int | None = None
    """Read no more than the first so many documents."""


@dataclass(frozen=True, kw_only=True)
class ShowArguments(InfoArguments):
    """Flags of ``documents show``."""

    index: Annotated[int, tyro.conf.arg(aliases=["-i"])] = 0
    """Which document, counting from 0."""
    max_characters: int = 2000
    """Characters shown of each segment; 0 shows all."""


def main(args: list[str]) -> None:
    """Run ``documents info`` or ``documents show``."""
    run_action("documents", ACTIONS, args)


def _info(args: list[str], prog: str, description: str) -> None:
    given = parse(InfoArguments, args, prog, description)
    print(*report(_open(given)), sep="\n")


def _show(args: list[str], prog: str, description: str) -> None:
    given = parse(ShowArguments, args, prog, description)
    document = document_at(_open(given), given.index)
    print(*document_lines(document, given.max_characters, sys.stdout.isatty()), sep="\n")


def _open(given: InfoArguments) -> DocumentSource:
    return open_source(given.spec, max_documents=given.max_documents, lines=given.lines)


ACTIONS = {"info": Action(_info, INFO), "show": Action(_show, SHOW)}

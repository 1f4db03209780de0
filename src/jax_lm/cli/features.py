"""``jax-lm features``: look at feature rows and check every byte."""

import sys
from dataclasses import dataclass
from typing import Annotated

import tyro

from jax_lm.cli.actions import Action, run_action
from jax_lm.cli.arguments import parse
from jax_lm.errors import JaxLMError
from jax_lm.preprocessing.describe import describe_set
from jax_lm.preprocessing.remote_features import local_features
from jax_lm.preprocessing.show import show_set_row
from jax_lm.preprocessing.verify import verify_features

INFO = "What a set holds, its settings and its files: jax-lm features info features/train"
SHOW = """The text of row N. What is not scored is dim, or in ⟦ ⟧ where there is no terminal;
special tokens stand in ‹ ›. Example: jax-lm features show features/train -i 0"""
VERIFY = "Check sha256, columns, ids and padding: jax-lm features verify features/train"


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Flags of ``features info`` and ``features verify``."""

    prefix: tyro.conf.Positional[str]
    """What was given to preprocess as --output."""


@dataclass(frozen=True, kw_only=True)
class ShowArguments(Arguments):
    """Flags of ``features show``."""

    index: Annotated[int, tyro.conf.arg(aliases=["-i"])] = 0
    """Which row, counted from 0 over all files."""


def main(args: list[str]) -> None:
    """Run one of the verb's three parts."""
    parts = {"info": Action(_info, INFO), "show": Action(_show, SHOW)}
    run_action("features", {**parts, "verify": Action(_verify, VERIFY)}, args)


def _here(given: Arguments) -> str:
    """The set on this machine; one on an object store is brought here, which is said."""
    return local_features(given.prefix, lambda line: print(line, file=sys.stderr))


def _info(args: list[str], prog: str, description: str) -> None:
    print("\n".join(describe_set(_here(parse(Arguments, args, prog, description)))))


def _show(args: list[str], prog: str, description: str) -> None:
    given = parse(ShowArguments, args, prog, description)
    print("\n".join(show_set_row(_here(given), given.index, color=sys.stdout.isatty())))


def _verify(args: list[str], prog: str, description: str) -> None:
    found = verify_features(_here(parse(Arguments, args, prog, description)))
    if found.problems:
        raise JaxLMError("; ".join(found.problems))
    print(f"{found.files} files, {found.rows:,} rows verified")

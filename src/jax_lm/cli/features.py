"""``jax-lm features``: look at feature rows and check every byte."""

import sys
from dataclasses import dataclass
from typing import Annotated

import tyro

from jax_lm.cli.actions import Action, run_action, say_aside
from jax_lm.cli.arguments import parse
from jax_lm.errors import JaxLMError
from jax_lm.preprocessing.describe import describe_set
from jax_lm.preprocessing.remote_features import local_features
from jax_lm.preprocessing.show import show_set_row
from jax_lm.preprocessing.verify import verify_features

INFO = "What a set holds, its settings and its files: jax-lm features info features/train"
SHOW = "A row as text, ⟦not scored⟧ or dim, ‹special›: jax-lm features show features/train -i 0"
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
    parts = {"info": (_info, INFO), "show": (_show, SHOW), "verify": (_verify, VERIFY)}
    run_action("features", {name: Action(*part) for name, part in parts.items()}, args)


def _info(args: list[str], prog: str, description: str) -> None:
    given = parse(Arguments, args, prog, description)
    print("\n".join(describe_set(local_features(given.prefix, say_aside))))


def _show(args: list[str], prog: str, description: str) -> None:
    given = parse(ShowArguments, args, prog, description)
    prefix = local_features(given.prefix, say_aside)
    print("\n".join(show_set_row(prefix, given.index, color=sys.stdout.isatty())))


def _verify(args: list[str], prog: str, description: str) -> None:
    given = parse(Arguments, args, prog, description)
    found = verify_features(local_features(given.prefix, say_aside))
    if found.problems:
        raise JaxLMError("; ".join(found.problems))
    print(f"{found.files} files, {found.rows:,} rows verified")

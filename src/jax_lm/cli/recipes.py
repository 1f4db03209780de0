"""``jax-lm recipes``: what can be trained, what it costs and what it should reach."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from jax_lm.cli.arguments import parse
from jax_lm.recipes.describing import full, listing, page
from jax_lm.recipes.registry import find_recipe

DESCRIPTION = """The recipes with their size, cost and expected result; all about those named.

Example: jax-lm recipes gpt2-norwegian
"""


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Flags of ``jax-lm recipes``."""

    names: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Recipes to tell all about; default: the list."""
    markdown: bool = False
    """All about all of them, as the reference page has it."""


def main(args: list[str]) -> None:
    """Run the verb."""
    given = parse(Arguments, args, "jax-lm recipes", DESCRIPTION)
    if given.markdown:
        print(*page(), sep="\n")
        return
    for name in given.names:
        print(*full(name, find_recipe(name)), "", sep="\n")
    if not given.names:
        print(*listing(), sep="\n")
        print("`jax-lm recipes NAME` says all about one.")
    print("`jax-lm train NAME --help` shows every setting, `jax-lm train NAME --show` its Python.")

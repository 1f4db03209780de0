"""``jax-lm recipes``: what can be trained, what it costs and what it should reach."""

import inspect
from dataclasses import dataclass

from jax_lm.cli.arguments import parse
from jax_lm.recipes.registry import RECIPES

DESCRIPTION = """The recipes with their cost and expected result.

Example: jax-lm recipes
"""


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """There is nothing to set."""


def main(args: list[str]) -> None:
    """Run the verb."""
    parse(Arguments, args, "jax-lm recipes", DESCRIPTION)
    for name, recipe in RECIPES.items():
        print(f"{name}\n{_indent(inspect.getdoc(recipe) or '')}\n")
    print("`jax-lm train NAME --help` shows every setting; `jax-lm train NAME --show` its Python.")


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in text.splitlines())

"""``jax-lm train RECIPE``: a run from a recipe, with any leaf of its configuration overridden."""

import inspect
from dataclasses import replace
from typing import Any

from jax_lm.cli.arguments import parse, take_flag
from jax_lm.cli.config_file import read_config_file
from jax_lm.errors import UsageError
from jax_lm.recipes.registry import RECIPES, find_recipe
from jax_lm.training.config import TrainConfig
from jax_lm.training.plan import BATCHES, LENGTHS, exactly_one

PROG = "jax-lm train RECIPE"
DESCRIPTION = """Train a model from a recipe; `jax-lm recipes` lists them.

--config FILE (JSON or YAML, such as any run's config.json) gives the defaults instead of the
recipe's; --show prints the recipe as Python to copy.

Example: jax-lm train gpt2-small --data.train features/train --data.validation features/held-out
         --tokens 2e9 --batch-size 64 --run-dir runs/web
"""


def main(args: list[str]) -> None:
    """Run the verb."""
    if not args or args[0].startswith("-"):
        if args and args[0] in ("-h", "--help"):
            parse(TrainConfig, args, PROG, DESCRIPTION)
        raise UsageError(
            f"name a recipe first, also with --config: jax-lm train {'|'.join(RECIPES)} [options]"
        )
    recipe = find_recipe(args[0])
    show, rest = take_flag(args[1:], "--show")
    if show:
        print(inspect.getsource(inspect.getmodule(recipe) or recipe))
        return
    from jax_lm.training.run import train  # after parsing, so that --help need not load JAX

    train(_configure(recipe(), rest, args[0]))


def _configure(default: TrainConfig, args: list[str], recipe: str) -> TrainConfig:
    """The recipe or --config FILE, with the flags given; a length or batch flag replaces theirs."""
    default, rest = read_config_file(default, args)
    for names in (LENGTHS, BATCHES):
        flags = {name: _is_given(name, rest) for name in names}
        if any(flags.values()):
            exactly_one({name: given or None for name, given in flags.items()}, names)
            cleared: dict[str, Any] = dict.fromkeys(names)
            default = replace(default, **cleared)
    return parse(TrainConfig, rest, f"jax-lm train {recipe}", DESCRIPTION, default)


def _is_given(name: str, args: list[str]) -> bool:
    spellings = (f"--{name}", f"--{name.replace('_', '-')}")
    return any(arg.split("=", 1)[0] in spellings for arg in args)

"""The recipes by name; a new recipe is a new row."""

from collections.abc import Callable

from jax_lm.errors import UsageError
from jax_lm.recipes.gpt2_small import gpt2_small
from jax_lm.recipes.quickstart import quickstart
from jax_lm.recipes.shakespeare_char import shakespeare_char
from jax_lm.training.config import TrainConfig

RECIPES: dict[str, Callable[[], TrainConfig]] = {
    "quickstart": quickstart,
    "shakespeare-char": shakespeare_char,
    "gpt2-small": gpt2_small,
}


def find_recipe(name: str) -> Callable[[], TrainConfig]:
    """A recipe by name.

    Raises:
        UsageError: there is none; all names are given.
    """
    if name not in RECIPES:
        raise UsageError(f"unknown recipe {name!r}: choose one of {', '.join(RECIPES)}")
    return RECIPES[name]

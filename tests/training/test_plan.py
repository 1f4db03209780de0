from dataclasses import replace

import pytest

from jax_lm.errors import UsageError
from jax_lm.recipes.registry import RECIPES, find_recipe
from jax_lm.training.config import TrainConfig
from jax_lm.training.plan import make_plan


@pytest.fixture
def empty(config: TrainConfig) -> TrainConfig:
    return replace(config, steps=None, batch_size=None)


def test_length_in_steps_epochs_or_tokens(empty: TrainConfig) -> None:
    batched = replace(empty, batch_size=8)
    assert make_plan(replace(batched, steps=5), rows=100, row_shards=1).steps == 5
    epochs = make_plan(replace(batched, epochs=1.5), rows=100, row_shards=1)
    assert (epochs.steps, epochs.epochs) == (19, pytest.approx(1.52))
    tokens = make_plan(replace(batched, tokens=1000), rows=100, row_shards=1)
    assert (tokens.steps, tokens.tokens_per_step) == (4, 256)


def test_batch_by_device(empty: TrainConfig) -> None:
    given = replace(empty, batch_size_per_device=3, steps=1)
    assert make_plan(given, rows=100, row_shards=4).batch_size == 12


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 8}, "exactly one of --steps or --epochs or --tokens .given: none"),
        (
            {"batch_size": 8, "steps": 1, "epochs": 1},
            "given: --steps and --epochs",
        ),
        ({"steps": 1}, "--batch-size or --batch-size-per-device"),
        ({"batch_size": 8, "steps": 0}, "the run has no steps"),
        (
            {"batch_size": 6, "steps": 1},
            "batch size 6 must be a positive multiple of 4: --mesh.data x --mesh.fsdp devices",
        ),
        ({"batch_size": 0, "steps": 1}, "batch size 0"),
    ],
)
def test_contradictions_are_refused(
    empty: TrainConfig, changes: dict[str, int], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        make_plan(replace(empty, **changes), rows=100, row_shards=4)


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_resolves_and_says_what_it_costs(name: str) -> None:
    recipe = find_recipe(name)
    assert make_plan(recipe(), rows=1000, row_shards=1).steps > 0
    assert recipe.__doc__ is not None
    for word in ("Data:", "Cost:", "Reaches:"):
        assert word in recipe.__doc__


def test_unknown_recipe_names_them_all() -> None:
    with pytest.raises(UsageError, match="quickstart, shakespeare-char, gpt2-small"):
        find_recipe("gpt5")

import json
from typing import Any

import pytest

from jax_lm.dataclass_json import from_json, to_json
from jax_lm.errors import UsageError
from jax_lm.recipes.registry import RECIPES
from jax_lm.training.config import TrainConfig


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_round_trip_through_json(name: str) -> None:
    config = RECIPES[name]()
    assert from_json(TrainConfig, json.loads(json.dumps(to_json(config))), "f") == config


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"optimiser": {}}, "f.json: unknown key 'optimiser'; did you mean 'optimizer'?"),
        (
            {"optimizer": {"learning_rat": 1}},
            "unknown key 'optimizer.learning_rat'; did you mean 'learning_rate'",
        ),
        ({"steps": "ten"}, "f.json: steps must be int or null, not 'ten'"),
        ({"steps": True}, "steps must be int or null"),
        ({"model": 3}, "f.json: model must be a mapping"),
        ({"dtype": "float8"}, "one of 'float32', 'bfloat16', 'float16', not 'float8'"),
        ({"data": {"validation": ["a", 3]}}, r"data.validation\[1\] must be str, not 3"),
        ({"model": {"embed_dim": 10, "num_heads": 3}}, "not a multiple of num_heads 3"),
        ([], "the file must be a mapping"),
    ],
)
def test_what_is_wrong_is_named(values: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        from_json(TrainConfig, values, "f.json")


def test_whole_numbers_are_floats_where_floats_are_wanted() -> None:
    config = from_json(TrainConfig, {"optimizer": {"learning_rate": 1}}, "f")
    assert isinstance(config.optimizer.learning_rate, float)

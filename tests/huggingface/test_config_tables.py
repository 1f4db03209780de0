"""The reading of config.json, apart from any family."""

from dataclasses import dataclass

import pytest

from jax_lm.errors import JaxLMError, UsageError
from jax_lm.huggingface.config_table import ConfigTable, Field, Group, read_config, write_config
from jax_lm.huggingface.families import config_from_json
from jax_lm.huggingface.rotary_keys import rotary_parameters


@dataclass(frozen=True, kw_only=True)
class Tiny:
    width: int
    depth: int
    rate: float = 0.0
    act: str = "relu"
    area: int = 0
    gated: bool = False


TABLE = ConfigTable(
    fields=(
        Field("hidden", "width", 8, "count"),
        Field("layers", "depth", 4, "count", read=lambda n: n - 1, write=lambda n: n + 1),
        Field(("p", "q"), "rate", 0.5),
        Field("act", "act", "relu", "text", choices={"relu": "relu", "RELU": "relu"}, quiet=True),
    ),
    groups=(
        Group(
            ("tall", "wide"),
            lambda values: {"area": values.get("tall", 1) * values.get("wide", 1)},
            lambda config: {"tall": config.area, "wide": 1},
        ),
    ),
    required={"tied": True, "odd": None},
    ignored=frozenset({"colour"}),
    harmless={"order": ("rising", None)},
    constants={"gated": True},
)


def read(**values):
    return read_config(TABLE, values, "config.json", Tiny)


def test_absent_keys_have_their_defaults():
    assert read() == Tiny(width=8, depth=3, rate=0.5, area=1, gated=True)


def test_a_configuration_survives_both_directions():
    config = read(hidden=3, layers=9, p=0, q=0, act="RELU", tall=2, wide=5, colour="red")
    assert config == Tiny(width=3, depth=8, rate=0.0, act="relu", area=10, gated=True)
    written = write_config(TABLE, config)
    assert written == {
        **{"hidden": 3, "layers": 9, "p": 0.0, "q": 0.0, "tall": 10, "wide": 1},
        **{"tied": True, "odd": None},
    }
    assert read_config(TABLE, written, "config.json", Tiny) == config


def test_every_key_at_fault_is_named_at_once():
    with pytest.raises(JaxLMError) as error:
        read(hidden=0, p=0.1, act="gelu", tied=False, odd=1, rope_dim=4, experts=8, use_cache=False)
    for part in (
        "config.json: hidden must be a positive integer, not 0",
        "p 0.1, q 0.5; they must be equal",
        "act is 'gelu'; implemented: relu, RELU",
        "tied is false; only true is implemented",
        "odd is 1; only null is implemented",
        "not implemented: experts (8), rope_dim (4)",
    ):
        assert part in str(error.value)
    assert "use_cache" not in str(error.value)


def test_harmless_keys_are_so_by_their_value():
    plain = read()
    assert read(order="rising", pruned_heads={}) == read(order=None, pruned_heads=None) == plain
    assert not write_config(TABLE, plain).keys() & {"order", "pruned_heads"}
    with pytest.raises(JaxLMError) as error:
        read(order="falling", pruned_heads={"0": [1]})
    for part in (
        'order is "falling"; only "rising" is implemented',
        'pruned_heads is {"0": [1]}; only {} is implemented',
    ):
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("model_type", "key", "harmless", "other"),
    [
        ("llama", "rope_interleaved", False, True),
        ("gptj", "rotary", True, False),
        ("gptj", "scale_attn_weights", True, False),
        ("bart", "extra_pos_embeddings", 2, 0),
        ("bert", "directionality", "bidi", "left"),
        ("roberta", "pruned_heads", {}, {"1": [0]}),
    ],
)
def test_keys_that_would_change_numbers_are_not_passed_over(model_type, key, harmless, other):
    plain = {"model_type": model_type}
    read_anew = config_from_json({**plain, key: harmless}, "config.json")
    assert read_anew == config_from_json(plain, "config.json")
    with pytest.raises(JaxLMError, match=f"{key} is .*; only .* is implemented"):
        config_from_json({**plain, key: other}, "config.json")


def test_what_a_group_refuses_names_the_file():
    def refuse(values):
        raise UsageError("too tall")

    table = ConfigTable(fields=TABLE.fields, groups=(Group(("tall",), refuse, dict),))
    with pytest.raises(JaxLMError, match=r"^config\.json: too tall$"):
        read_config(table, {}, "config.json", Tiny)


@pytest.mark.parametrize(
    "values",
    [
        {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5000}},
        {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_theta": 5000},
        {"rope_scaling": {"rope_type": "linear", "factor": 2.0}, "rope_theta": 5000.0},
    ],
)
def test_rotary_settings_are_read_in_either_form(values):
    expected = {"rope_type": "linear", "factor": 2.0, "rope_theta": 5000.0}
    assert rotary_parameters(values, known=("factor",)) == expected


def test_silent_rotary_settings_are_the_plain_ones():
    expected = {"rope_type": "default", "rope_theta": 10_000.0}
    assert rotary_parameters({"rope_scaling": None}) == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rope_scaling": {"beta": 1, "alpha": 2}}, "not implemented: alpha 2, beta 1"),
        ({"rope_theta": "big"}, "rope_theta must be a number, not 'big'"),
        ({"rope_parameters": [1]}, r"rope_parameters must be a mapping, not \[1\]"),
    ],
)
def test_rotary_settings_nobody_knows_are_named(values, message):
    with pytest.raises(UsageError, match=message):
        rotary_parameters(values)

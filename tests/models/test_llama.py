"""LLaMA's published sizes and initialisation, its configuration, and its angles."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.dataclass_json import from_json, to_json
from jax_lm.errors import UsageError
from jax_lm.huggingface.convert import leaves_by_path
from jax_lm.models.layers.rotary import RotaryConfig, frequencies, scaled_frequencies
from jax_lm.models.llama import PRESETS, LlamaConfig
from jax_lm.models.registry import count_parameters, init_model

COUNTS = {
    "llama-7b": 6_738_415_616,
    "llama-13b": 13_015_864_320,
    "llama-30b": 32_528_943_616,
    "llama-65b": 65_285_660_672,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "mistral-7b-v0.1": 7_241_732_096,
    "mistral-7b-v0.3": 7_248_023_552,
    "qwen2-0.5b": 494_032_768,
    "qwen2-1.5b": 1_543_714_304,
    "qwen2-7b": 7_615_616_512,
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
    "tinyllama-1.1b": 1_100_048_384,
    "stories260k": 260_032,
    "stories15m": 15_191_712,
    "stories42m": 41_689_600,
    "stories110m": 109_529_856,
}
SHAPE = {"vocab_size": 2000, "num_layers": 2, "num_heads": 4, "embed_dim": 64}


@pytest.mark.parametrize("name", COUNTS)
def test_a_published_shape_has_the_published_number_of_parameters(name):
    assert count_parameters(PRESETS[name]) == COUNTS[name]


def test_weights_begin_as_published():
    config = LlamaConfig(**SHAPE, variant="qwen2", num_kv_heads=2, init_std=0.05)
    model = jax.jit(init_model, static_argnums=1)(jax.random.key(0), config)
    for path, leaf in leaves_by_path(model).items():
        if path.endswith("scale"):
            assert (leaf == 1).all(), path
        elif path.endswith("bias"):
            assert not leaf.any(), path
        else:
            std = float(np.asarray(leaf)[..., : config.vocab_size, :].std())
            np.testing.assert_allclose(std, 0.05, rtol=0.05, err_msg=path)


def test_a_variant_has_the_parameters_it_is_named_for():
    def attention(**changes) -> set[str]:
        model = jax.eval_shape(
            lambda: init_model(jax.random.key(0), LlamaConfig(**SHAPE, **changes))
        )
        paths = leaves_by_path(model.blocks.attention)
        return {path for path in paths if not path.endswith("_weight")}

    biases = {"query_bias", "key_bias", "value_bias"}
    assert attention() == attention(variant="mistral") == set()
    assert attention(variant="qwen2") == biases
    assert attention(attention_bias=True) == {*biases, "output_bias"}
    assert attention(variant="qwen3") == {"query_scale", "key_scale"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_heads": 3}, "embed_dim 64 is not a multiple of num_heads 3"),
        ({"num_kv_heads": 3}, "num_heads 4 is not a multiple of num_kv_heads 3"),
        ({"head_dim": 5}, "head_dim is 5, expected an even number"),
        ({"window": 4}, "window: the variant llama has none"),
        ({"window": 0, "variant": "mistral"}, "window is 0, expected 1 or more"),
        ({"attention_bias": True, "variant": "qwen2"}, "the variant qwen2 does not have"),
    ],
)
def test_what_no_such_model_has_is_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        LlamaConfig(**{**SHAPE, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"factor": 0.0}, "rotary factor is 0.0, expected more than 0"),
        ({"base": -1.0}, "rotary base is -1.0"),
        ({"low_frequency_factor": 4.0}, r"less than high_frequency_factor \(4.0\)"),
    ],
)
def test_rotations_without_angles_are_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        RotaryConfig(**changes)


def test_a_configuration_survives_json():
    for config in PRESETS.values():
        assert from_json(LlamaConfig, to_json(config), "config.json") == config


def test_scaling_slows_down_what_it_should():
    plain = frequencies(16, 500.0)
    linear = scaled_frequencies(16, RotaryConfig(base=500.0, scaling="linear", factor=4.0))
    np.testing.assert_allclose(linear, plain / 4, rtol=1e-6)
    config = RotaryConfig(base=500.0, scaling="llama3", factor=4.0, original_context=40)
    scaled, turns = scaled_frequencies(16, config), 40 * plain / (2 * np.pi)
    share = np.asarray(scaled / plain)
    np.testing.assert_allclose(share[turns > 4], 1.0, rtol=1e-6)
    np.testing.assert_allclose(share[turns < 1], 0.25, rtol=1e-6)
    between = share[(turns > 1) & (turns < 4)]
    assert len(between) and (between > 0.25).all() and (between < 1.0).all()
    assert (np.diff(share) <= 1e-6).all()


def test_angles_are_the_same_compiled():
    """Down to the last bit: far positions multiply the difference."""
    config = RotaryConfig(base=500_000.0, scaling="llama3", factor=8.0)
    compiled = jax.jit(lambda: 1 * jnp.asarray(scaled_frequencies(128, config)))()
    np.testing.assert_array_equal(compiled, scaled_frequencies(128, config))

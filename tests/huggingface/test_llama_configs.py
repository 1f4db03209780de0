"""config.json of LLaMA, Mistral, Qwen2 and Qwen3: as published, of older versions, refused."""

import json

import pytest

from jax_lm.errors import JaxLMError
from jax_lm.huggingface.families import config_from_json, config_to_json
from jax_lm.models.layers.rotary import RotaryConfig
from jax_lm.models.llama import PRESETS, LlamaConfig

# What the published files say, keys without meaning included.
LLAMA_31_8B = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 128000,
    "eos_token_id": 128001,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.43.0.dev0",
    "use_cache": True,
    "vocab_size": 128256,
}
MISTRAL_7B = {
    "architectures": ["MistralForCausalLM"],
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 14336,
    "max_position_embeddings": 32768,
    "model_type": "mistral",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "sliding_window": 4096,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.34.0.dev0",
    "use_cache": True,
    "vocab_size": 32000,
}
QWEN2_05B = {
    "architectures": ["Qwen2ForCausalLM"],
    "attention_dropout": 0.0,
    "bos_token_id": 151643,
    "eos_token_id": 151643,
    "hidden_act": "silu",
    "hidden_size": 896,
    "initializer_range": 0.02,
    "intermediate_size": 4864,
    "max_position_embeddings": 131072,
    "max_window_layers": 24,
    "model_type": "qwen2",
    "num_attention_heads": 14,
    "num_hidden_layers": 24,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "sliding_window": 131072,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "use_sliding_window": False,
    "vocab_size": 151936,
}
QWEN3_06B = {
    "architectures": ["Qwen3ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 1024,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "max_position_embeddings": 40960,
    "max_window_layers": 28,
    "model_type": "qwen3",
    "num_attention_heads": 16,
    "num_hidden_layers": 28,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
    "vocab_size": 151936,
}
TINY = {"vocab_size": 10, "context_length": 8, "num_layers": 2, "num_heads": 4, "embed_dim": 16}


@pytest.mark.parametrize(
    ("values", "preset"),
    [
        (LLAMA_31_8B, "llama-3.1-8b"),
        (MISTRAL_7B, "mistral-7b-v0.1"),
        (QWEN2_05B, "qwen2-0.5b"),
        (QWEN3_06B, "qwen3-0.6b"),
    ],
)
def test_published_files_are_the_presets(values, preset):
    assert config_from_json(values, "config.json") == PRESETS[preset]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_read_as_it_was_written(name):
    values = json.loads(json.dumps(config_to_json(PRESETS[name])))
    assert values["model_type"] == PRESETS[name].variant
    assert config_from_json(values, "config.json") == PRESETS[name]


@pytest.mark.parametrize("variant", ["mistral", "qwen2", "qwen3"])
def test_windows_heads_and_scaling_are_read_as_written(variant):
    rotary = RotaryConfig(base=50.0, scaling="linear", factor=2.0)
    config = LlamaConfig(
        **TINY, variant=variant, window=3, num_kv_heads=2, head_dim=6, mlp_dim=20, rotary=rotary
    )
    values = json.loads(json.dumps(config_to_json(config)))
    assert None not in values.values()
    assert config_from_json(values, "config.json") == config


@pytest.mark.parametrize("model_type", ["llama", "mistral", "qwen2", "qwen3"])
def test_absent_keys_mean_what_they_mean_to_transformers(model_type):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoConfig.for_model(model_type).to_dict()
    given = config_from_json(theirs, "config.json")
    assert config_from_json({"model_type": model_type}, "config.json") == given


@pytest.mark.parametrize("scaling", ["linear", "llama3"])
def test_both_forms_of_rotary_settings_are_read(scaling):
    settings = {"factor": 4.0, "low_freq_factor": 1.5, "high_freq_factor": 3.0}
    settings = settings if scaling == "llama3" else {"factor": 4.0}
    shared = {"model_type": "llama", "max_position_embeddings": 64}
    older = {**shared, "rope_theta": 500.0, "rope_scaling": {"type": scaling, **settings}}
    # Version 5 keeps the older name of the type beside its own.
    names = {"type": scaling, "rope_type": scaling}
    newer = {**shared, "rope_parameters": {"rope_theta": 500.0, **names, **settings}}
    found = config_from_json(older, "config.json")
    assert found == config_from_json(newer, "config.json")
    assert (found.rotary.base, found.rotary.scaling, found.rotary.factor) == (500.0, scaling, 4.0)
    assert found.rotary.original_context == (64 if scaling == "llama3" else 8192)


QWEN = {"model_type": "qwen2", "num_hidden_layers": 2, "use_sliding_window": True}


@pytest.mark.parametrize(
    ("values", "window"),
    [
        ({"max_window_layers": 0, "sliding_window": 5}, 5),
        ({"max_window_layers": 2, "sliding_window": 5}, None),
        ({"layer_types": ["sliding_attention"] * 2, "sliding_window": 5}, 5),
        ({"layer_types": ["full_attention"] * 2}, None),
        ({"max_window_layers": 0, "sliding_window": 5, "use_sliding_window": False}, None),
    ],
)
def test_qwens_window_is_that_of_all_layers(values, window):
    assert config_from_json({**QWEN, **values}, "config.json").window == window


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({**QWEN, "max_window_layers": 1}, "mixed, are not implemented"),
        ({**QWEN, "layer_types": ["full_attention", "sliding_attention"]}, "mixed"),
        ({**QWEN, "layer_types": ["linear_attention"] * 2}, "layer_types must be .*linear_att"),
        ({**QWEN, "sliding_window": "all"}, "sliding_window must be an integer, not 'all'"),
        ({"model_type": "llama", "mlp_bias": True}, "mlp_bias is true; only false is implemented"),
        ({"model_type": "llama", "hidden_act": "gelu"}, 'hidden_act is "gelu"; only "silu"'),
        ({"model_type": "llama", "head_dim": 0.5}, "head_dim must be a positive integer, not 0.5"),
        ({"model_type": "llama", "num_key_value_heads": 5}, "num_heads 32 is not a multiple of"),
        ({"model_type": "llama", "head_dim": 7}, "head_dim is 7, expected an even number"),
        (
            {"model_type": "llama", "quantization_config": {}, "sliding_window": 8},
            "not implemented: quantization_config .*, sliding_window",
        ),
        (
            {"model_type": "qwen3", "rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
            "rope_type is 'yarn'; implemented: default, linear, llama3",
        ),
        (
            {"model_type": "llama", "rope_scaling": {"rope_type": "llama3", "factor": 4.0}},
            "'llama3' needs a number for low_freq_factor, high_freq_factor, original_max",
        ),
        ({"model_type": "llama", "rope_scaling": {"factor": 4.0}}, "a factor but no rope_type"),
        (
            {"model_type": "llama", "rope_scaling": {"type": "linear", "factor": -1.0}},
            "rotary factor is -1.0, expected more than 0",
        ),
    ],
)
def test_what_is_not_implemented_is_named(values, message):
    with pytest.raises(JaxLMError, match=f"config.json: .*{message}"):
        config_from_json(values, "config.json")

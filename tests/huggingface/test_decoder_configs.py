"""GPT-J's, GPT-NeoX's and OPT's files as they were published, and those of older versions."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from jax_lm.errors import JaxLMError
from jax_lm.huggingface.convert import leaves_by_path
from jax_lm.huggingface.directory import load_model
from jax_lm.huggingface.families import config_from_json, config_to_json, family_for
from jax_lm.models import gpt_neox, gptj, opt
from jax_lm.models.gpt_neox import GPTNeoXConfig
from jax_lm.models.gptj import GPTJConfig
from jax_lm.models.opt import OPTConfig
from jax_lm.models.registry import abstract_model

# What the published files say, keys without meaning included.
GPTJ_6B = {
    "architectures": ["GPTJForCausalLM"],
    "model_type": "gptj",
    "activation_function": "gelu_new",
    "attn_pdrop": 0.0,
    "bos_token_id": 50256,
    "embd_pdrop": 0.0,
    "eos_token_id": 50256,
    "gradient_checkpointing": False,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05,
    "n_embd": 4096,
    "n_head": 16,
    "n_inner": None,
    "n_layer": 28,
    "n_positions": 2048,
    "resid_pdrop": 0.0,
    "rotary": True,
    "rotary_dim": 64,
    "scale_attn_weights": True,
    "summary_type": "cls_index",
    "task_specific_params": {"text-generation": {"do_sample": True}},
    "tie_word_embeddings": False,
    "tokenizer_class": "GPT2Tokenizer",
    "transformers_version": "4.18.0.dev0",
    "use_cache": True,
    "vocab_size": 50400,
}
NEOX_20B = {
    "architectures": ["GPTNeoXForCausalLM"],
    "model_type": "gpt_neox",
    "attention_probs_dropout_prob": 0,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "hidden_act": "gelu_fast",
    "hidden_dropout_prob": 0,
    "hidden_size": 6144,
    "initializer_range": 0.02,
    "intermediate_size": 24576,
    "layer_norm_eps": 1e-05,
    "max_position_embeddings": 2048,
    "num_attention_heads": 64,
    "num_hidden_layers": 44,
    "rotary_emb_base": 10000,
    "rotary_pct": 0.25,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "use_cache": True,
    "vocab_size": 50432,
}
OPT_350M = {
    "architectures": ["OPTForCausalLM"],
    "model_type": "opt",
    "_remove_final_layer_norm": False,
    "activation_dropout": 0.0,
    "activation_function": "relu",
    "attention_dropout": 0.1,
    "bos_token_id": 2,
    "do_layer_norm_before": False,
    "dropout": 0.1,
    "eos_token_id": 2,
    "ffn_dim": 4096,
    "hidden_size": 1024,
    "init_std": 0.006,
    "layerdrop": 0.0,
    "max_position_embeddings": 2048,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "pad_token_id": 1,
    "prefix": "</s>",
    "vocab_size": 50272,
    "word_embed_proj_dim": 512,
}
SHAPE = {"vocab_size": 10, "context_length": 8, "num_layers": 2, "num_heads": 2, "embed_dim": 16}


@pytest.mark.parametrize(
    ("values", "preset"),
    [
        (GPTJ_6B, gptj.PRESETS["gpt-j-6b"]),
        (NEOX_20B, gpt_neox.PRESETS["gpt-neox-20b"]),
        (OPT_350M, opt.PRESETS["opt-350m"]),
    ],
    ids=["gptj", "gpt-neox", "opt"],
)
def test_published_files_are_the_presets(values, preset):
    assert config_from_json(values, "config.json") == preset


@pytest.mark.parametrize(
    "config",
    [
        GPTJConfig(**SHAPE, rotary_dim=2, mlp_dim=20, initialization="normal", dropout=0.1),
        GPTNeoXConfig(**SHAPE, rotary_fraction=0.5, parallel_residual=False, tied=True),
        GPTNeoXConfig(**SHAPE, rotary_base=500.0, mlp_dim=20, attention_bias=False),
        OPTConfig(**SHAPE, token_dim=8, pre_norm=False, bias=False),
        OPTConfig(**SHAPE, final_norm=False, norm_parameters=False, mlp_dim=20, dropout=0.1),
    ],
)
def test_what_is_written_is_read(config):
    values = json.loads(json.dumps(config_to_json(config)))
    assert config_from_json(values, "config.json") == config


def test_rotary_settings_are_read_in_the_newer_form_too():
    newer = {"rope_type": "default", "rope_theta": 500, "partial_rotary_factor": 0.5}
    values = {"model_type": "gpt_neox", "rope_parameters": newer}
    config = config_from_json(values, "config.json")
    assert (config.rotary_base, config.rotary_fraction) == (500.0, 0.5)
    absent = config_from_json({"model_type": "gpt_neox"}, "config.json")
    assert (absent.rotary_base, absent.rotary_fraction) == (10_000.0, 0.25)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"model_type": "gpt_neox", "rope_scaling": {"type": "linear", "factor": 2.0}},
            "factor 2.0",
        ),
        (
            {"model_type": "gpt_neox", "rope_parameters": {"rope_type": "dynamic"}},
            "rope_type is 'dynamic'; implemented: default",
        ),
        ({"model_type": "gpt_neox", "rotary_pct": "all"}, "rotary_pct must be a number"),
        ({"model_type": "gpt_neox", "rotary_pct": 0.4, "hidden_size": 64 * 8}, "is 3, expected"),
        (
            {"model_type": "gpt_neox", "intermediate_size": 1.5},
            "intermediate_size must be a positive integer, not 1.5",
        ),
        (
            {"model_type": "gpt_neox", "hidden_dropout": 0.1},
            "hidden_dropout 0.1, attention_dropout 0.0; they must be equal",
        ),
        ({"model_type": "gptj", "rotary_dim": None}, "rotary_dim must be a positive integer"),
        (
            {"model_type": "gptj", "tie_word_embeddings": True},
            "tie_word_embeddings is true; only false is implemented",
        ),
        ({"model_type": "opt", "layerdrop": 0.1}, "layerdrop is 0.1; only 0.0 is implemented"),
        ({"model_type": "opt", "activation_function": "selu"}, "activation_function is 'selu'"),
        ({"model_type": "opt", "num_experts": 8}, r"not implemented: num_experts \(8\)"),
    ],
)
def test_what_is_not_implemented_is_named(values, message):
    with pytest.raises(JaxLMError, match=f"config.json: .*{message}"):
        config_from_json(values, "config.json")


def write_files(config, directory: Path) -> dict[str, np.ndarray]:
    """A random model's files; gives its arrays."""
    draw, leaves = np.random.default_rng(0), {}
    for path, leaf in leaves_by_path(abstract_model(config)).items():
        leaves[path] = draw.normal(size=leaf.shape).astype(np.float32)
        if leaf.shape[0] == config.padded_vocab_size:
            leaves[path][config.vocab_size :] = 0
    table = family_for(config).table(config)
    tensors = {}
    for rule in table.all_rules:
        for name, index in rule.places(config.num_layers):
            ours = tuple(leaves[path][index] for path in rule.our_paths)
            theirs = rule.transform.to_theirs(ours)
            rows = rule.transform.rows
            stored = theirs if rows is None else theirs[:rows]
            tensors[table.written_name(rule, name)] = np.ascontiguousarray(stored)
    directory.mkdir()
    save_file(tensors, directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps(config_to_json(config)))
    return leaves


MASK = np.zeros((1, 1, 8, 8), np.float32)
OLDER = {
    "gptj": (
        GPTJConfig(**SHAPE, rotary_dim=4),
        lambda name: name,
        {"transformer.h.0.attn.bias": MASK, "transformer.h.1.attn.masked_bias": MASK},
    ),
    "gpt-neox": (
        GPTNeoXConfig(**SHAPE),
        lambda name: name,
        {
            "gpt_neox.layers.0.attention.bias": MASK,
            "gpt_neox.layers.0.attention.masked_bias": MASK,
            "gpt_neox.layers.1.attention.rotary_emb.inv_freq": MASK,
        },
    ),
    "gpt-neox named as in memory": (
        GPTNeoXConfig(**SHAPE),
        lambda name: name.replace("embed_out", "lm_head"),
        {},
    ),
    "opt, bare": (OPTConfig(**SHAPE), lambda name: name.removeprefix("model."), {}),
    "opt, with a copy of its embedding": (OPTConfig(**SHAPE), lambda name: name, "lm_head.weight"),
}


@pytest.mark.parametrize(("config", "rename", "more"), OLDER.values(), ids=OLDER.keys())
def test_files_of_older_versions_are_read(config, rename, more, tmp_path: Path):
    leaves = write_files(config, tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    tensors = {rename(name): tensor for name, tensor in load_file(file).items()}
    if isinstance(more, str):
        more = {more: tensors["model.decoder.embed_tokens.weight"]}
    save_file({**tensors, **more}, file)
    read = leaves_by_path(load_model(tmp_path / "model"))
    assert read.keys() == leaves.keys()
    for path, leaf in leaves.items():
        np.testing.assert_array_equal(read[path], leaf, err_msg=path)


def test_an_output_matrix_that_is_not_the_embedding_is_refused(tmp_path: Path):
    write_files(OPTConfig(**SHAPE), tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    tensors = load_file(file)
    tensors["lm_head.weight"] = tensors["model.decoder.embed_tokens.weight"] + 1
    save_file(tensors, file)
    with pytest.raises(JaxLMError, match=r"lm_head\.weight from .*embed_tokens\.weight differs"):
        load_model(tmp_path / "model")

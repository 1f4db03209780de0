"""T5's files: the keys that say which version it is, and what else the published ones hold."""

import dataclasses
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from jax_lm.errors import JaxLMError
from jax_lm.huggingface.convert import leaves_by_path
from jax_lm.huggingface.directory import load_model, write_directory
from jax_lm.huggingface.families import config_from_json, config_to_json
from jax_lm.models.registry import abstract_model
from jax_lm.models.t5 import PRESETS, T5, T5Config
from tests.parity import cases_t5, parity_cases

UNSCALED = {"tied": False, "scale_output": False}
ENCODER_BIAS = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
UNUSED = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
SMALL = {
    "architectures": ["T5WithLMHeadModel"],
    "d_ff": 2048,
    "d_kv": 64,
    "d_model": 512,
    "decoder_start_token_id": 0,
    "dropout_rate": 0.1,
    "eos_token_id": 1,
    "initializer_factor": 1.0,
    "is_encoder_decoder": True,
    "layer_norm_epsilon": 1e-06,
    "model_type": "t5",
    "n_positions": 512,
    "num_heads": 8,
    "num_layers": 6,
    "output_past": True,
    "pad_token_id": 0,
    "relative_attention_num_buckets": 32,
    "task_specific_params": {"summarization": {"prefix": "summarize: "}},
    "vocab_size": 32128,
}
"""The config.json of the first small model."""


def read(**changes) -> T5Config:
    values = {name: value for name, value in {**SMALL, **changes}.items() if value != "absent"}
    return config_from_json(values, "config.json")


def test_the_first_published_config_is_the_small_preset():
    wanted = dataclasses.replace(
        PRESETS["t5-small"], vocab_size=32128, dropout=0.1, num_decoder_layers=None
    )
    assert read() == dataclasses.replace(wanted, decoder_start_id=0)


@pytest.mark.parametrize(
    ("keys", "tied", "scaled"),
    [
        ({}, True, True),
        ({"tie_word_embeddings": False}, False, False),
        ({"tie_word_embeddings": True, "scale_decoder_outputs": False}, True, False),
        ({"tie_word_embeddings": False, "scale_decoder_outputs": True}, False, True),
    ],
)
def test_both_keys_of_the_head_are_read_and_written(keys, tied, scaled):
    config = read(**keys)
    assert (config.tied, config.scale_output) == (tied, scaled)
    assert config_from_json(config_to_json(config), "written") == config


@pytest.mark.parametrize(
    ("word", "activation", "gated"),
    [
        ("relu", "relu", False),
        ("gelu", "gelu", False),
        ("gelu_new", "gelu_tanh", False),
        ("gated-gelu", "gelu_tanh", True),
        ("gated-silu", "silu", True),
        ("gated-gelu_python", "gelu", True),
    ],
)
def test_activations_are_those_of_transformers(word, activation, gated):
    """What is written for ours means the same in transformers as what was read."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    config = read(feed_forward_proj=word)
    assert (config.activation, config.gated) == (activation, gated)
    written = config_to_json(config)["feed_forward_proj"]
    assert config_from_json(config_to_json(config), "written") == config
    x = torch.linspace(-3, 3, 50)
    theirs = [transformers.T5Config(feed_forward_proj=one) for one in (word, written)]
    values = [transformers.activations.ACT2FN[one.dense_act_fn](x) for one in theirs]
    torch.testing.assert_close(*values)
    assert theirs[0].is_gated_act == theirs[1].is_gated_act == gated


def test_outputs_begin_with_padding_where_nothing_else_is_said():
    assert read(decoder_start_token_id="absent", pad_token_id=5).decoder_start_id == 5
    assert read(decoder_start_token_id="absent", pad_token_id="absent").decoder_start_id == 0
    assert read(decoder_start_token_id=2).decoder_start_id == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"feed_forward_proj": "gated-tanh"}, "feed_forward_proj is 'gated-tanh'; implemented: "),
        ({"feed_forward_proj": "twice-relu"}, "feed_forward_proj is 'twice-relu'; implemented: "),
        ({"dense_act_fn": "silu"}, "dense_act_fn is 'silu', but feed_forward_proj 'relu' means"),
        ({"is_gated_act": True}, "is_gated_act is True, but feed_forward_proj 'relu' means False"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings must be true or false, not 'no'"),
        ({"decoder_start_token_id": -1}, "decoder_start_token_id must be a token id, not -1"),
        ({"is_decoder": True}, "is_decoder is true; only false is implemented"),
        ({"relative_attention_max_distance": 9}, "max_distance is 9, expected more than half"),
    ],
)
def test_what_is_not_implemented_is_named(changes, message):
    with pytest.raises(JaxLMError, match=f"config.json: {message}"):
        read(**changes)


@pytest.fixture
def exported(tmp_path: Path) -> tuple[Path, T5]:
    """A tiny version 1.1, random everywhere, and its directory."""
    config = T5Config(
        vocab_size=20, num_layers=1, num_heads=2, head_dim=3, embed_dim=8, mlp_dim=10,
        num_buckets=4, max_distance=5, decoder_start_id=0, **UNSCALED,
    )  # fmt: skip
    draw = np.random.default_rng(0).normal

    def fill(path, leaf):
        values = draw(size=leaf.shape).astype(np.float32)
        if leaf.shape[0] == config.padded_vocab_size:
            values[20:] = 0
        return jnp.asarray(values)

    model = jax.tree_util.tree_map_with_path(fill, abstract_model(config))
    write_directory(model, None, tmp_path / "model", card="# tiny\n")
    return tmp_path / "model", model


def edit(directory: Path, change, **keys) -> None:
    """Change the tensors of a directory, and keys of its config.json."""
    tensors = load_file(directory / "model.safetensors")
    change(tensors)
    save_file(tensors, directory / "model.safetensors")
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))


def test_version_1_1_as_transformers_5_writes_it_keeps_its_head(exported):
    """It calls all T5 tied; the head in the file says otherwise."""
    directory, model = exported
    edit(directory, lambda tensors: None, tie_word_embeddings=True)
    again = load_model(directory)
    assert again.config == model.config
    np.testing.assert_array_equal(again.output_weight, model.output_weight)


def test_copies_and_what_nothing_reads_may_be_in_the_files(exported):
    directory, model = exported

    def add(tensors):
        tensors["encoder.embed_tokens.weight"] = tensors["shared.weight"].copy()
        tensors["decoder.embed_tokens.weight"] = tensors["shared.weight"].copy()
        tensors[UNUSED] = tensors[ENCODER_BIAS].copy()

    edit(directory, add)
    again = leaves_by_path(load_model(directory))
    for path, leaf in leaves_by_path(model).items():
        np.testing.assert_array_equal(again[path], leaf, err_msg=path)


def test_a_missing_head_and_differing_copies_are_named(exported):
    directory, _ = exported
    edit(directory, lambda tensors: tensors.pop("lm_head.weight"))
    with pytest.raises(JaxLMError, match=r"missing lm_head\.weight"):
        load_model(directory)
    edit(directory, lambda tensors: tensors.update({"lm_head.weight": tensors["shared.weight"]}))
    other = np.ones((20, 8), np.float32)
    edit(directory, lambda tensors: tensors.update({"decoder.embed_tokens.weight": other}))
    with pytest.raises(JaxLMError, match=r"decoder\.embed_tokens\.weight from shared\.weight"):
        load_model(directory)


def test_the_start_of_outputs_is_exported(exported):
    for name in ("config.json", "generation_config.json"):
        assert json.loads((exported[0] / name).read_text())["decoder_start_token_id"] == 0


def test_version_1_1_from_scratch_in_transformers_5_is_tied_but_not_scaled(tmp_path: Path):
    """It has no head of its own there, whatever its configuration asked for."""
    pytest.importorskip("transformers")
    case = parity_cases.Case(cases_t5.version_1_1, cases_t5.AUTO)
    theirs = parity_cases.random_model(case)
    theirs.save_pretrained(tmp_path / "theirs")
    model = load_model(tmp_path / "theirs")
    assert (model.config.tied, model.config.scale_output) == (True, False)
    given = parity_cases.make_inputs(case, encoder_decoder=True)
    ids, starts, real = (
        jnp.asarray(array, jnp.int32)
        for array in (given.input_ids, given.decoder_input_ids, given.real)
    )
    hidden = jax.jit(T5.__call__)(model, ids, starts, segment_ids=real)
    logits = np.asarray(model.unembedding.logits(hidden))[..., : parity_cases.VOCABULARY]
    expected = parity_cases.their_logits(theirs, given).detach().numpy()
    np.testing.assert_allclose(logits[given.scored], expected[given.scored], atol=1e-5)
    write_directory(model, None, tmp_path / "ours", card="# tiny\n")
    assert load_model(tmp_path / "ours").config == model.config

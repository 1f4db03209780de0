import dataclasses
import json
from pathlib import Path

import jax
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from jax_lm.errors import JaxLMError
from jax_lm.huggingface import gpt2
from jax_lm.huggingface.convert import leaves_by_path
from jax_lm.huggingface.directory import load_model
from jax_lm.huggingface.families import config_from_json, config_to_json
from jax_lm.huggingface.mapping import (
    IDENTITY,
    SQUEEZE,
    TRANSPOSE,
    compose,
    fused_heads,
    heads_first,
    interleaved_heads,
    linear_from_heads,
    linear_to_heads,
)
from jax_lm.models.gpt2 import GPT2

TRANSFORMS = {
    "identity": (IDENTITY, (3, 5)),
    "heads first": (heads_first(2), (6, 5)),
    "transpose": (TRANSPOSE, (3, 5)),
    "linear to heads": (linear_to_heads(2), (6, 5)),
    "its bias": (linear_to_heads(2), (6,)),
    "linear from heads": (linear_from_heads(2), (5, 6)),
    "interleaved weight": (interleaved_heads(3, 2), (18, 5)),
    "interleaved bias": (interleaved_heads(3, 2), (18,)),
    "composed": (compose(SQUEEZE, TRANSPOSE), (1, 3, 5)),
    "fused weight": (fused_heads(3, 2), (5, 18)),
    "fused bias": (fused_heads(3, 2), (18,)),
}


@pytest.mark.parametrize(("transform", "shape"), TRANSFORMS.values(), ids=TRANSFORMS.keys())
def test_transforms_invert_themselves(transform, shape):
    theirs = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    np.testing.assert_array_equal(transform.to_theirs(transform.to_ours(theirs)), theirs)


def test_fused_heads_are_query_then_key_then_value_each_head_by_head():
    query, key, value = fused_heads(3, 2).to_ours(np.arange(12))
    assert (query.tolist(), key.tolist(), value.tolist()) == (
        [[0, 1], [2, 3]],
        [[4, 5], [6, 7]],
        [[8, 9], [10, 11]],
    )


def test_linear_layers_to_and_from_heads_are_transposed():
    to, back = np.arange(12).reshape(4, 3), np.arange(12).reshape(3, 4)
    (ours,) = linear_to_heads(2).to_ours(to)
    np.testing.assert_array_equal(ours[:, 1, 0], to[2])
    (ours,) = linear_from_heads(2).to_ours(back)
    np.testing.assert_array_equal(ours[1, 0], back[:, 2])


def test_interleaved_heads_hold_query_key_and_value_in_turn():
    query, key, value = interleaved_heads(3, 2).to_ours(np.arange(12))
    assert (query.tolist(), key.tolist(), value.tolist()) == (
        [[0, 1], [6, 7]],
        [[2, 3], [8, 9]],
        [[4, 5], [10, 11]],
    )


def test_the_table_covers_every_parameter_once(model: GPT2):
    paths = [path for rule in gpt2.table(model.config).rules for path in rule.our_paths]
    assert sorted(paths) == sorted(leaves_by_path(model))


def rewrite(directory: Path, change) -> None:
    """Change the tensors of an exported model; ``change`` edits a dict in place."""
    path = directory / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


def assert_same(a: GPT2, b: GPT2) -> None:
    jax.tree.map(np.testing.assert_array_equal, a, b)


def test_every_tensor_at_fault_is_named_at_once(exported: Path):
    def damage(tensors):
        del tensors["transformer.h.1.ln_2.bias"], tensors["transformer.wpe.weight"]
        tensors["transformer.h.2.ln_1.bias"] = np.zeros(8, np.float32)
        tensors["score.weight"] = np.zeros((2, 8), np.float32)
        tensors["transformer.h.0.attn.c_attn.weight"] = np.zeros((24, 8), np.float32)
        tensors["transformer.ln_f.weight"] = np.zeros(8, np.int32)

    rewrite(exported, damage)
    with pytest.raises(JaxLMError) as error:
        load_model(exported)
    message = str(error.value)
    assert message.startswith(f"{exported}: the weights do not fit the configuration: ")
    for part in (
        "missing transformer.wpe.weight, transformer.h.1.ln_2.bias;",
        "unexpected score.weight, transformer.h.2.ln_1.bias;",
        "transformer.h.0.attn.c_attn.weight has shape (24, 8), expected (8, 24)",
        "transformer.ln_f.weight has dtype I32, expected one of F64, F32, F16, BF16, F8",
    ):
        assert part in message


def test_files_of_the_first_models_are_read(exported: Path, model: GPT2):
    """No prefix, causal masks stored as buffers, and the tied output matrix stored again."""

    def age(tensors):
        for name in list(tensors):
            tensors[name.removeprefix("transformer.")] = tensors.pop(name)
        tensors["h.0.attn.bias"] = np.ones((1, 1, 8, 8), np.uint8)
        tensors["h.1.attn.masked_bias"] = np.float32(-1e4)[None]
        tensors["lm_head.weight"] = tensors["wte.weight"].copy()

    rewrite(exported, age)
    assert_same(load_model(exported), model)


def test_an_output_matrix_of_its_own_is_refused(exported: Path):
    rewrite(
        exported,
        lambda tensors: tensors.update({"lm_head.weight": tensors["transformer.wte.weight"] + 1}),
    )
    with pytest.raises(JaxLMError, match=r"lm_head\.weight from transformer\.wte\.weight differs"):
        load_model(exported)


def test_a_tensor_named_with_and_without_prefix_is_unexpected(exported: Path):
    rewrite(exported, lambda t: t.update({"wte.weight": t["transformer.wte.weight"]}))
    with pytest.raises(JaxLMError, match=r"unexpected (transformer\.)?wte\.weight"):
        load_model(exported)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_other_float_dtypes_are_read_as_float32(exported: Path, model: GPT2, dtype):
    rewrite(exported, lambda t: t.update({name: x.astype(dtype) for name, x in t.items()}))
    read = load_model(exported)
    expected = jax.tree.map(lambda x: np.asarray(x).astype(dtype).astype(np.float32), model)
    assert read.token_embedding.dtype == np.float32
    assert_same(read, expected)


def shard(directory: Path) -> None:
    """Cut the weights into two files and an index."""
    tensors = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    names = sorted(tensors)
    weight_map = {}
    for number, part in enumerate((names[::2], names[1::2])):
        save_file({name: tensors[name] for name in part}, directory / f"part-{number}.safetensors")
        weight_map.update(dict.fromkeys(part, f"part-{number}.safetensors"))
    index = directory / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))


def test_sharded_weights_are_read(exported: Path, model: GPT2):
    shard(exported)
    assert_same(load_model(exported), model)


def test_missing_and_damaged_shards_are_named_together(exported: Path):
    shard(exported)
    (exported / "part-1.safetensors").unlink()
    with pytest.raises(JaxLMError, match=r"model: part-1\.safetensors is not there: copy again"):
        load_model(exported)
    first = exported / "part-0.safetensors"
    first.write_bytes(first.read_bytes()[:100])
    with pytest.raises(
        JaxLMError,
        match=r"part-0\.safetensors is not a whole .* \(100 bytes; .*\); part-1\.safetensors is",
    ):
        load_model(exported)


def test_an_index_without_a_map_is_refused(exported: Path):
    shard(exported)
    (exported / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(JaxLMError, match=r"index\.json: expected a mapping weight_map"):
        load_model(exported)


def edit_config(directory: Path, **changes) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx is true"),
        ({"reorder_and_upcast_attn": True}, "reorder_and_upcast_attn is true"),
        ({"scale_attn_weights": False}, "scale_attn_weights is false; only true is implemented"),
        ({"add_cross_attention": True}, "add_cross_attention is true; only false"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings is false"),
        ({"activation_function": "relu"}, "activation_function is 'relu'; implemented: gelu_new"),
        ({"attn_pdrop": 0.3}, "attn_pdrop 0.3; they must be equal"),
        ({"n_layer": "two"}, "n_layer must be a positive integer, not 'two'"),
        ({"n_inner": 0}, "n_inner must be a positive integer, not 0"),
        ({"layer_norm_epsilon": None}, "layer_norm_epsilon must be a number, not None"),
        ({"jax_lm_bias": 1}, "jax_lm_bias must be true or false, not 1"),
        ({"n_head": 3}, "embed_dim 8 is not a multiple of num_heads 3"),
        ({"model_type": "gpt3"}, "model_type is 'gpt3'; the families that can be read: .*gpt2, "),
        ({"rotary": 1, "depth": [2]}, r"not implemented: depth \(\[2\]\), rotary \(1\)$"),
        (
            {"architectures": ["GPT2ForSequenceClassification"]},
            r"architectures is \['GPT2ForSequenceClassification'\]; those that can be read",
        ),
        ({"architectures": "GPT2LMHeadModel"}, "architectures must be a list of names"),
    ],
)
def test_a_configuration_that_is_not_implemented_is_named(exported: Path, changes, message):
    edit_config(exported, **changes)
    with pytest.raises(JaxLMError, match=message) as error:
        load_model(exported)
    assert str(error.value).startswith(str(exported / "config.json"))


def test_a_silent_configuration_has_the_defaults_of_transformers():
    config = config_from_json({"model_type": "gpt2"}, "config.json")
    assert (config.vocab_size, config.embed_dim, config.dropout) == (50257, 768, 0.1)
    assert config.bias


def test_configurations_survive_both_directions(model: GPT2):
    config = dataclasses.replace(
        model.config, mlp_dim=12, bias=False, activation="gelu", dropout=0.1, norm_epsilon=1e-6
    )
    assert config_from_json(config_to_json(config), "here") == config


def test_biases_called_absent_must_be_zero(exported: Path):
    edit_config(exported, jax_lm_bias=False)
    with pytest.raises(
        JaxLMError, match=r"there are no biases, but these are not zero: .*final_norm\.bias"
    ):
        load_model(exported)


def test_zero_biases_stay_biases_without_the_key(exported: Path):
    def zero(tensors):
        tensors.update({n: x * 0 for n, x in tensors.items() if n.endswith("bias")})

    rewrite(exported, zero)
    read = load_model(exported)
    assert read.final_norm.bias is not None
    assert not read.blocks.attention.query_bias.any()
    edit_config(exported, jax_lm_bias=False)
    assert load_model(exported).blocks.attention.query_bias is None

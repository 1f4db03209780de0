"""Weights and outputs that Apple's axlearn recorded of transformers: nobody here made them."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.huggingface.convert import leaves_by_path
from jax_lm.losses import mean_loss, token_shares
from jax_lm.models.gpt2 import GPT2, GPT2Config
from jax_lm.models.registry import abstract_model
from jax_lm.models.t5 import T5, T5Config

PAD = 0
Arrays = Mapping[str, np.ndarray]


class Fixture(NamedTuple):
    """One of their tests: parameters, inputs and outputs."""

    params: Arrays
    inputs: Arrays
    outputs: Arrays


def read(directory: Path, module: str, test: str) -> Fixture:
    with np.load(directory / f"axlearn.common.{module}.npz", allow_pickle=False) as stored:
        parts = (f"{test}/{part}/" for part in Fixture._fields)
        return Fixture(
            *({n.removeprefix(p): stored[n] for n in stored if n.startswith(p)} for p in parts)
        )


@pytest.fixture
def fixtures(shared_data: Path) -> Callable[[str, str], Fixture]:
    return lambda module, test: read(shared_data / "weights/axlearn_testdata", module, test)


def layers_of(params: Arrays, stack: str, name: str) -> np.ndarray:
    """A parameter of every layer, stacked."""
    prefix = f"{stack}transformer/layer"
    count = len({n.removeprefix(prefix).split("/")[0] for n in params if n.startswith(prefix)})
    return np.stack([params[f"{prefix}{layer}/{name}"] for layer in range(count)])


def attention(params: Arrays, stack: str, name: str, path: str) -> dict[str, np.ndarray]:
    """Their projections; only the one back has its axes in another order than ours."""
    projections = {
        ours: layers_of(params, stack, f"{name}/attention/i_proj/{ours[0]}_proj/weight")
        for ours in ("query", "key", "value")
    }
    output = np.moveaxis(layers_of(params, stack, f"{name}/attention/o_proj/weight"), 1, -1)
    return {f"{path}.{o}_weight": w for o, w in {**projections, "output": output}.items()}


def unscaled(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """T5 divides no scores by sqrt(head_dim); axlearn always does, and has larger queries there."""
    (query,) = (path for path in arrays if path.endswith("query_weight"))
    return {**arrays, query: arrays[query] / np.sqrt(arrays[query].shape[-1], dtype=np.float32)}


def filled(config: Any, arrays: Arrays) -> Any:
    """The model with these arrays; every parameter must be there, in its shape."""
    like = abstract_model(config)
    shapes = {path: leaf.shape for path, leaf in leaves_by_path(like).items()}
    assert shapes.keys() == arrays.keys()

    def place(path: str) -> jax.Array:
        rows = shapes[path][0] - arrays[path].shape[0]  # of a padded vocabulary
        edges = [(0, rows), *[(0, 0)] * (arrays[path].ndim - 1)]
        whole = np.pad(arrays[path], edges)
        assert whole.shape == shapes[path], path
        return jnp.asarray(whole)

    return jax.tree.unflatten(jax.tree.structure(like), [place(path) for path in shapes])


@jax.jit
def logits(model: Any, hidden: jax.Array) -> jax.Array:
    return model.unembedding.logits(hidden)[..., : model.config.vocab_size]


def gpt2_arrays(params: Arrays) -> Arrays:
    names = {
        "attention_norm.scale": "self_attention/norm/scale",
        "attention_norm.bias": "self_attention/norm/bias",
        "feed_forward_norm.scale": "feed_forward/norm/scale",
        "feed_forward_norm.bias": "feed_forward/norm/bias",
        "feed_forward.up_weight": "feed_forward/linear1/weight",
        "feed_forward.up_bias": "feed_forward/linear1/bias",
        "feed_forward.down_weight": "feed_forward/linear2/weight",
        "feed_forward.down_bias": "feed_forward/linear2/bias",
        "attention.output_bias": "self_attention/attention/o_proj/bias",
        **{
            f"attention.{ours}_bias": f"self_attention/attention/i_proj/{ours[0]}_proj/bias"
            for ours in ("query", "key", "value")
        },
    }
    return {
        "token_embedding": params["decoder/emb/token_emb/weight"],
        "position_embedding": params["decoder/emb/pos_emb/weight"][0],
        "final_norm.scale": params["decoder/output_norm/scale"],
        "final_norm.bias": params["decoder/output_norm/bias"],
        **attention(params, "decoder/", "self_attention", "blocks.attention"),
        **{f"blocks.{o}": layers_of(params, "decoder/", n) for o, n in names.items()},
    }


def test_gpt2_gives_the_recorded_logits(fixtures):
    fixture = fixtures("causal_lm_test", "test_against_hf_gpt2_lm")
    config = GPT2Config(vocab_size=24, context_length=11, num_layers=2, num_heads=4, embed_dim=16)
    model = filled(config, gpt2_arrays(fixture.params))
    ids = fixture.inputs["input_ids"].astype(np.int32)
    actual = logits(model, jax.jit(GPT2.__call__)(model, ids))
    np.testing.assert_allclose(actual, fixture.outputs["logits"], atol=1e-5, rtol=0)


def t5_stack(params: Arrays, theirs: str, ours: str, final_norm: str) -> Arrays:
    gated = f"{theirs}transformer/layer0/feed_forward/linear1_1/weight" in params
    inward = {"gate": "linear1_0", "up": "linear1_1"} if gated else {"up": "linear1"}
    blocks = {
        "attention_norm.scale": "self_attention/norm/scale",
        "feed_forward_norm.scale": "feed_forward/norm/scale",
        **{
            f"feed_forward.{name}_weight": f"feed_forward/{layer}/weight"
            for name, layer in {**inward, "down": "linear2"}.items()
        },
    }
    crossing = {}
    if ours == "decoder":
        blocks["cross_attention_norm.scale"] = "cross_attention/norm/scale"
        path = "decoder.blocks.cross_attention"
        crossing = unscaled(attention(params, theirs, "cross_attention", path))
    return {
        f"{ours}.relative_bias.bucket_bias": params[f"{theirs}relative_pos_emb/emb/weight"],
        f"{ours}.final_norm.scale": params[f"{theirs}{final_norm}/scale"],
        **unscaled(attention(params, theirs, "self_attention", f"{ours}.blocks.attention")),
        **crossing,
        **{f"{ours}.blocks.{o}": layers_of(params, theirs, n) for o, n in blocks.items()},
    }


SHAPE = T5Config(
    vocab_size=128,
    num_layers=2,
    num_heads=3,
    head_dim=4,
    embed_dim=12,
    mlp_dim=32,
    tied=False,
    scale_output=False,
)
"""Their version 1.0 has an output matrix of its own too."""
VERSIONS = {
    "t5-v1": {"activation": "relu", "mlp_dim": 48},
    "t5-v1-1": {"activation": "gelu_tanh", "gated": True},
    "t5-ul2": {"activation": "silu", "gated": True},
}


@pytest.mark.parametrize("version", VERSIONS)
def test_t5_gives_the_recorded_logits_and_loss(fixtures, version):
    """Their loss is transformers': the mean over all targets that are not padding."""
    fixture = fixtures("t5_test", f"test_against_t5_encoder_decoder_model_{version}")
    params = fixture.params
    arrays = {
        "token_embedding": params["shared_token_emb/weight"],
        "output_weight": params["decoder/lm_head/weight"],
        **t5_stack(params, "encoder/", "encoder", "output/norm"),
        **t5_stack(params, "decoder/", "decoder", "output_norm"),
    }
    model = filled(dataclasses.replace(SHAPE, **VERSIONS[version]), arrays)
    source, labels = fixture.inputs["source_ids"], fixture.inputs["target_labels"]
    real, scored = (source != PAD).astype(np.int32), labels > 0
    target = fixture.inputs["target_ids"]
    hidden = jax.jit(T5.__call__)(model, source, target, segment_ids=real)
    actual = np.asarray(logits(model, hidden))[scored]
    expected = fixture.outputs["ref_logits"][scored]
    np.testing.assert_allclose(actual, expected, atol=1e-5, rtol=0)
    targets, weights = jnp.asarray(np.where(scored, labels, 0)), jnp.asarray(scored, jnp.float32)
    loss, _ = mean_loss(hidden, model.unembedding, targets, token_shares(weights))
    np.testing.assert_allclose(loss, fixture.outputs["ref_loss"], atol=1e-5)


def test_the_encoder_of_t5_gives_the_recorded_hidden_states(fixtures):
    fixture = fixtures("t5_test", "test_against_t5_encoder")
    table = fixture.params["emb/token_emb/weight"]
    config = dataclasses.replace(SHAPE, activation="gelu_tanh", gated=True, num_decoder_layers=1)
    recorded = {
        "token_embedding": table,
        "output_weight": table,
        **t5_stack(fixture.params, "", "encoder", "output/norm"),
    }
    shapes = leaves_by_path(abstract_model(config))
    missing = {p: np.zeros(s.shape) for p, s in shapes.items() if p.startswith("decoder.")}
    model = filled(config, {**recorded, **missing})
    ids = fixture.inputs["input_ids"].astype(np.int32)
    real = ids != PAD
    actual = jax.jit(T5.encode)(model, ids, real.astype(np.int32))
    expected = fixture.outputs["last_hidden_state"][real]
    np.testing.assert_allclose(np.asarray(actual)[real], expected, atol=1e-5, rtol=0)

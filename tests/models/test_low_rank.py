"""Low-rank factors: where they go, what they compute, what they cost, and how they end."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.errors import UsageError
from jax_lm.huggingface.convert import leaves_by_path
from jax_lm.models.axes import AxisNames, parameter_axes
from jax_lm.models.forward import forward
from jax_lm.models.layers.low_rank import LowRank, contract
from jax_lm.models.low_rank import LoraConfig, merged, with_low_rank
from jax_lm.models.precision import in_dtype
from jax_lm.models.registry import init_model
from tests.contracts.family_cases import CONFIGS, VOCABULARY
from tests.contracts.test_families import batch, drawn

NAMES = ("gpt2", "llama, few key heads", "t5 v1.1")
EVERY = LoraConfig(rank=2, alpha=6.0, targets=("*",))
"""Stacked and not, looked up and multiplied with."""


@pytest.fixture(scope="module")
def bases():
    return {name: drawn(CONFIGS[name]) for name in NAMES}


@pytest.fixture
def base(request, bases):
    return bases[request.param]


def of_models(*fast):
    marked = [pytest.param(one, marks=() if one in fast else pytest.mark.slow) for one in NAMES]
    return pytest.mark.parametrize("base", marked, indirect=True)


@jax.jit
def logits(model):
    return model.unembedding.logits(forward(model, batch()))[..., :VOCABULARY]


def moved(model):
    """With the second factors no longer zero."""
    draw = np.random.default_rng(5)

    def move(path, leaf):
        if not jax.tree_util.keystr(path).endswith(".b"):
            return leaf
        return jnp.asarray(0.1 * draw.normal(size=leaf.shape), jnp.float32)

    return jax.tree_util.tree_map_with_path(move, model)


def adapted(base, config=EVERY):
    return jax.jit(with_low_rank, static_argnums=2)(jax.random.key(1), base, config)


def restated(weight, a, b, scale):
    """The sum, a matrix of a layer at a time, in float64."""
    if a.ndim + b.ndim > weight.ndim + 2:
        return np.stack([restated(*layer, scale) for layer in zip(weight, a, b, strict=True)])
    rank = a.shape[-1]
    product = np.asarray(a, np.float64).reshape(-1, rank) @ np.asarray(b).reshape(rank, -1)
    return np.asarray(weight) + scale * product.reshape(weight.shape)


@of_models("llama, few key heads", "t5 v1.1")
def test_factors_start_without_effect_and_merge_into_what_they_compute(base):
    fresh = adapted(base)
    np.testing.assert_allclose(logits(fresh), logits(base), atol=1e-5)
    model = moved(fresh)
    plain = merged(model)
    assert jax.tree.structure(plain) == jax.tree.structure(base)
    found, expected = np.asarray(logits(model)), np.asarray(logits(plain))
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
    assert not np.allclose(found, logits(base), atol=1e-2 * np.abs(expected).max())
    sums, untouched = leaves_by_path(plain), leaves_by_path(base)
    parts = leaves_by_path(model)
    for path, total in sums.items():
        if f"{path}.a" not in parts:
            assert path.endswith(("bias", "scale"))
            np.testing.assert_array_equal(total, untouched[path])
            continue
        weight, a, b = (parts[f"{path}.{part}"] for part in ("weight", "a", "b"))
        np.testing.assert_allclose(total, restated(weight, a, b, 3.0), atol=2e-5, err_msg=path)


@of_models("llama, few key heads")
def test_gradients_are_those_of_the_explicit_sum(base):
    model = moved(adapted(base))
    is_factor = jax.tree_util.tree_map_with_path(
        lambda path, _: jax.tree_util.keystr(path).endswith((".a", ".b")), model
    )
    trained, frozen = eqx.partition(model, is_factor)

    def loss(trained, merge):
        whole = eqx.combine(trained, frozen)
        return jnp.square(logits(merged(whole) if merge else whole)).mean()

    gradient = jax.jit(jax.grad(loss), static_argnums=1)
    ours, expected = (
        leaves_by_path(gradient(trained, False)),
        leaves_by_path(gradient(trained, True)),
    )
    assert ours.keys() == expected.keys()
    assert len(ours) == 2 * sum(path.endswith(".a") for path in ours) > 0
    for path, wanted in expected.items():
        bound = 1e-4 * max(float(jnp.abs(wanted).max()), 1e-3)
        np.testing.assert_allclose(ours[path], wanted, atol=bound, err_msg=path)
        assert np.abs(wanted).max() > 0, path


def test_factors_name_the_axes_that_they_share_with_their_weight(bases):
    model = adapted(bases["gpt2"])
    axes = parameter_axes(model)
    query, output = axes.blocks.attention.query_weight, axes.blocks.attention.output_weight
    assert query.weight == ("layers", "embed", "heads", "head_dim")
    assert (query.a, query.b) == (
        ("layers", "embed", "low_rank"),
        ("layers", "low_rank", "heads", "head_dim"),
    )
    assert (output.a, output.b) == (
        ("layers", "heads", "head_dim", "low_rank"),
        ("layers", "low_rank", "embed"),
    )
    assert axes.token_embedding.a == ("vocab", "low_rank")
    names = jax.tree.leaves(axes, is_leaf=lambda node: isinstance(node, AxisNames))
    for leaf, found in zip(jax.tree.leaves(model), names, strict=True):
        assert len(found) == leaf.ndim
    weights_gone = eqx.tree_at(
        lambda m: m.blocks.attention.query_weight.weight, model, replace=None
    )
    assert parameter_axes(weights_gone).blocks.attention.query_weight.b == query.b


def test_only_what_is_named_gets_factors(bases):
    config = LoraConfig(rank=3, targets=("*attention*query_weight", "encoder.*down_weight"))
    parts = leaves_by_path(adapted(bases["t5 v1.1"], config))
    assert {path for path in parts if path.endswith(".a")} == {
        "encoder.blocks.attention.query_weight.a",
        "encoder.blocks.feed_forward.down_weight.a",
        "decoder.blocks.attention.query_weight.a",
        "decoder.blocks.cross_attention.query_weight.a",
    }
    assert parts["encoder.blocks.feed_forward.down_weight.b"].shape == (2, 3, 16)
    assert with_low_rank(jax.random.key(0), bases["gpt2"], LoraConfig()) is bases["gpt2"]


def test_first_factors_are_random_each_for_itself_and_zero_for_padding():
    config = dataclasses.replace(CONFIGS["gpt2"], embed_dim=64, num_heads=4)
    model = jax.jit(init_model, static_argnums=1)(jax.random.key(0), config)
    made = adapted(model, dataclasses.replace(EVERY, rank=16))
    attention = made.blocks.attention
    assert float(attention.query_weight.a.std()) == pytest.approx((3 * 64) ** -0.5, rel=0.1)
    assert not np.allclose(attention.query_weight.a, attention.key_weight.a)
    assert not np.allclose(attention.query_weight.a[0], attention.query_weight.a[1])
    assert float(made.token_embedding.a[:VOCABULARY].std()) == pytest.approx(3**-0.5, rel=0.2)
    assert not made.token_embedding.a[VOCABULARY:].any()
    assert attention.query_weight.scale == 6.0 / 16


def test_small_changes_survive_bfloat16(bases):
    """A change far below the weight's own rounding reaches the product."""
    x, weight = jnp.array([[[1.0, -1.0]]]), jnp.ones((2, 1))
    change = LowRank(weight, jnp.array([[2.0**-6], [0.0]]), jnp.full((1, 1), 2.0**-6), 1.0)
    low, low_x = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), (change, x))
    assert float(contract("bte,em->btm", low_x, low)[0, 0, 0]) == 2.0**-12
    assert float(contract("bte,em->btm", low_x, merged(low))[0, 0, 0]) == 0.0
    model = in_dtype(adapted(bases["gpt2"]), jnp.bfloat16)
    query = model.blocks.attention.query_weight
    assert {leaf.dtype for leaf in jax.tree.leaves(query)} == {jnp.dtype("bfloat16")}
    assert jax.eval_shape(logits, model).dtype == jnp.float32
    assert merged(model).blocks.attention.query_weight.dtype == jnp.bfloat16


@pytest.mark.slow
def test_decoding_with_factors_equals_decoding_without(bases):
    model = moved(adapted(bases["t5 v1.1"]))
    ids = batch().input_ids

    @jax.jit
    def first(model):
        encoded = model.encode(ids)
        cache = model.start_cache(encoded, None, 4)
        return model.decode(ids[:, :2], cache)[0]

    expected = np.asarray(first(merged(model)))
    np.testing.assert_allclose(first(model), expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 2, "targets": ("*atention.query_weight",)}, r"blocks\.attention\.query_weight"),
        ({"rank": 2, "targets": ("*norm*",)}, r"\*norm\* names no weight or embedding"),
        ({"rank": -1}, "--lora.rank is -1"),
        ({"rank": 1, "alpha": 0.0}, "--lora.alpha is 0.0"),
        ({"rank": 1, "targets": ()}, "--lora.targets is empty"),
    ],
)
def test_what_cannot_be_adapted_is_refused(bases, options, message):
    with pytest.raises(UsageError, match=message):
        with_low_rank(jax.random.key(0), bases["gpt2"], LoraConfig(**options))

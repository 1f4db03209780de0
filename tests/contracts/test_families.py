"""What every model family promises; a new family is a new row in ``family_cases.CONFIGS``."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.huggingface.convert import leaves_by_path
from jax_lm.models.axes import parameter_axes
from jax_lm.models.forward import forward
from jax_lm.models.layers.dropout import DropoutKey
from jax_lm.models.registry import FAMILIES, abstract_model, init_model
from jax_lm.types import Batch
from tests.contracts.family_cases import CONFIGS, SEQ, VOCABULARY

AXIS_WORDS = {"embed", "heads", "kv_heads", "head_dim", "mlp", "vocab", "context", "layers"} | {
    "buckets",
    "types",
    "word_embed",
}
IDS = np.random.default_rng(0).integers(3, VOCABULARY, (3, SEQ)).astype(np.int32)
DIRECTION = np.random.default_rng(2).normal(size=16).astype(np.float32)
OUTPUTS = np.random.default_rng(1).integers(3, VOCABULARY, (3, SEQ)).astype(np.int32)


def of_kind(*kinds: str):
    named = {name: config for name, config in CONFIGS.items() if config.kind in kinds}
    return pytest.mark.parametrize("model", named.values(), ids=named.keys(), indirect=True)


@pytest.fixture(scope="module")
def models():
    return {}


@pytest.fixture(params=CONFIGS.values(), ids=CONFIGS.keys())
def model(request, models):
    """Large weights, so that what does not matter can be told from what hardly does."""
    config = request.param
    if id(config) not in models:
        models[id(config)] = drawn(config)
    return models[id(config)]


def drawn(config):
    draw = np.random.default_rng(0)

    def fill(path, leaf):
        values = draw.normal(0, 0.3, leaf.shape).astype(np.float32)
        if jax.tree_util.keystr(path).endswith("scale"):
            values = 1 + values
        return jnp.asarray(values)

    return jax.tree_util.tree_map_with_path(fill, abstract_model(config))


def batch(input_ids=IDS, outputs=OUTPUTS, segment_ids=None) -> Batch:
    return Batch(
        input_ids=jnp.asarray(input_ids),
        targets=jnp.asarray(outputs),
        loss_mask=jnp.ones(outputs.shape),
        segment_ids=jnp.ones(input_ids.shape, jnp.int32)
        if segment_ids is None
        else jnp.asarray(segment_ids, jnp.int32),
        decoder_input_ids=jnp.asarray(outputs),
    )


@eqx.filter_jit
def hidden(model, batch, **options):
    return forward(model, batch, **options)


@eqx.filter_jit
def unrolled(model, batch):
    if model.config.kind == "encoder-decoder":
        arguments = (batch.input_ids, batch.decoder_input_ids)
    else:
        arguments = (batch.input_ids,)
    return model(*arguments, segment_ids=batch.segment_ids, unroll=True)


@jax.jit
def decode(model, input_ids, cache):
    return model.decode(input_ids, cache)


@eqx.filter_jit
def influence(model, batch, position):
    """How much each input's embedding moves one output position, by gradient."""

    def output(embedding):
        moved = eqx.tree_at(lambda m: m.token_embedding, model, embedding)
        return forward(moved, batch)[0, position] @ jnp.asarray(DIRECTION)

    return jnp.abs(jax.grad(output)(model.token_embedding)).sum(axis=-1)


@of_kind("decoder", "encoder-decoder")
def test_no_position_depends_on_a_later_one(model):
    """By the gradient of each position's output with respect to each input embedding."""
    distinct = np.arange(3, 3 + SEQ, dtype=np.int32)[None]
    given = batch(distinct + SEQ, distinct)
    if model.config.kind == "decoder":
        given = batch(distinct, distinct)
    window = getattr(model.config, "window", None) or SEQ
    reach = 1 + (window - 1) * model.config.num_layers
    for position in range(SEQ):
        moved = np.asarray(influence(model, given, jnp.int32(position)))[3 : 3 + SEQ] > 0
        expected = [position - reach < place <= position for place in range(SEQ)]
        assert moved.tolist() == expected, position


@of_kind("encoder", "encoder-decoder")
def test_every_output_depends_on_all_of_the_input(model):
    distinct = np.arange(3, 3 + SEQ, dtype=np.int32)[None]
    moved = influence(model, batch(distinct, distinct + SEQ), jnp.int32(2))
    assert (np.asarray(moved)[3 : 3 + SEQ] > 0).all()


def test_scanned_equals_unrolled(model):
    np.testing.assert_allclose(hidden(model, batch()), unrolled(model, batch()), atol=1e-5)


@of_kind("decoder")
def test_decoding_with_a_cache_equals_the_full_forward(model):
    """Rows of several lengths, right-padded in the first step and then a token at a time."""
    lengths = np.array([5, 1, 4])
    padded = np.where(np.arange(5)[None] < lengths[:, None], IDS[:, :5], 22).astype(np.int32)
    first, cache = decode(model, jnp.asarray(padded), model.empty_cache(3, SEQ))
    cache = cache._replace(lengths=jnp.asarray(lengths, jnp.int32))
    expected = np.asarray(hidden(model, batch()))
    for row, length in enumerate(lengths):
        np.testing.assert_allclose(first[row, :length], expected[row, :length], atol=1e-5)
    for step in range(SEQ - 5):
        newest = IDS[np.arange(3), lengths + step][:, None]
        one, cache = decode(model, jnp.asarray(newest), cache)
        wanted = expected[np.arange(3), lengths + step]
        np.testing.assert_allclose(one[:, 0], wanted, atol=1e-5, err_msg=f"step {step}")
    assert cache.lengths.tolist() == [SEQ, SEQ - 4, SEQ - 1]


@of_kind("encoder-decoder")
def test_decoding_from_memory_equals_the_full_forward(model):
    segments = np.array([[1] * SEQ, [1] * 4 + [0] * (SEQ - 4), [0] * 2 + [1] * (SEQ - 2)])
    given = batch(segment_ids=segments)
    expected = hidden(model, given)
    encoded = jax.jit(type(model).encode)(model, given.input_ids, given.segment_ids)
    cache = model.start_cache(encoded, given.segment_ids, SEQ)
    parts = []
    for start, stop in [(0, 3), *((i, i + 1) for i in range(3, SEQ))]:
        part, cache = decode(model, jnp.asarray(OUTPUTS[:, start:stop]), cache)
        parts.append(part)
    np.testing.assert_allclose(jnp.concatenate(parts, axis=1), expected, atol=1e-5)


@of_kind("decoder", "encoder")
def test_padding_and_packing_change_nothing_for_real_tokens(model):
    """A row alone; after padding, before padding, and between two other documents."""
    short = 3
    alone = hidden(model, batch(IDS[:1, :short], OUTPUTS[:1, :short]))[0]
    rows = np.repeat(IDS[1:2], 3, axis=0)
    starts = [SEQ - short, 0, 2]
    segments = np.array([[0] * SEQ] * 2 + [[1] * 2 + [2] * short + [3] * (SEQ - 2 - short)])
    for row, start in enumerate(starts):
        rows[row, start : start + short] = IDS[0, :short]
        if row < 2:
            segments[row, start : start + short] = 1
    together = hidden(model, batch(rows, OUTPUTS, segments))
    for row, start in enumerate(starts):
        found = together[row, start : start + short]
        np.testing.assert_allclose(found, alone, atol=1e-5, err_msg=f"row {row}")
    assert np.isfinite(together).all()


@of_kind("decoder")
def test_padding_on_the_right_is_not_seen(model):
    """Also where nothing marks it."""
    given = batch()._replace(segment_ids=None)
    padded = given._replace(input_ids=given.input_ids.at[:, 6:].set(0))
    np.testing.assert_array_equal(hidden(model, padded)[:, :6], hidden(model, given)[:, :6])


@of_kind("encoder-decoder")
def test_padding_of_the_input_is_not_seen(model):
    segments = np.array([[1] * 5 + [0] * (SEQ - 5)] * 3)
    other = np.where(segments == 0, 7, IDS)
    first, second = (hidden(model, batch(ids, segment_ids=segments)) for ids in (IDS, other))
    np.testing.assert_array_equal(first, second)
    short = hidden(model, batch(IDS[:, :5]))
    np.testing.assert_allclose(first, short, atol=1e-5)


def test_every_leaf_is_an_array_and_every_other_field_static(model):
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(model))
    hash(jax.tree.structure(model))  # what jax.jit needs of the fields that are not arrays


def test_every_parameter_names_its_axes_and_each_axis_has_one_size(model):
    axes = jax.tree.leaves(parameter_axes(model), is_leaf=lambda x: isinstance(x, tuple))
    leaves = leaves_by_path(model)
    sizes: dict[str, set[int]] = {}
    for (path, leaf), names in zip(leaves.items(), axes, strict=True):
        assert len(names) == leaf.ndim, path
        assert set(names) <= AXIS_WORDS, path
        assert (names[0] == "layers") == ("blocks." in path), path
        for name, size in zip(names, leaf.shape, strict=True):
            sizes.setdefault(name, set()).add(size)
    del sizes["layers"]  # the stacks of an encoder-decoder may differ
    assert all(len(found) == 1 for found in sizes.values()), sizes


def test_logits_are_there_for_every_id_and_no_other(model):
    logits = model.unembedding.logits(jnp.ones((2, model.unembedding.weight.shape[1])))
    assert logits.shape == (2, model.config.padded_vocab_size)
    assert np.isfinite(logits[:, :VOCABULARY]).all()
    assert (np.asarray(logits[:, VOCABULARY:]) == -np.inf).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_a_row_here(family):
    assert any(config.family == family for config in CONFIGS.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_the_initial_model_knows_nothing_and_drops_by_its_key(family):
    """Logits near zero: the loss of a fresh model is nearly that of a uniform guess."""
    config = next(config for config in CONFIGS.values() if config.family == family)
    config = dataclasses.replace(config, dropout=0.5)
    model = jax.jit(init_model, static_argnums=1)(jax.random.key(0), config)
    run = jax.jit(lambda key, rows: forward(model, batch(), key=DropoutKey(key, rows)))
    first = run(jax.random.key(1), jnp.arange(3))
    np.testing.assert_array_equal(first, run(jax.random.key(1), jnp.arange(3)))
    assert not np.allclose(first, run(jax.random.key(2), jnp.arange(3)))
    moved = run(jax.random.key(1), jnp.array([0, 5, 2]))
    assert [np.array_equal(a, b) for a, b in zip(first, moved, strict=True)] == [True, False, True]
    losses = -jax.nn.log_softmax(model.unembedding.logits(hidden(model, batch())))
    mean = np.take_along_axis(np.asarray(losses), OUTPUTS[..., None], axis=-1).mean()
    assert mean < np.log(VOCABULARY) + 0.5


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["attention", "full"])
def test_remat_changes_nothing(model, policy):
    def gradient(remat):
        return jax.jit(jax.grad(lambda m: (forward(m, batch(), remat=remat) ** 3).sum()))(model)

    plain = leaves_by_path(gradient("none"))
    for path, found in leaves_by_path(gradient(policy)).items():
        # A key bias moves every score alike, so its gradient is rounding around zero.
        least = 10.0 if path.endswith("key_bias") else 1.0
        bound = 1e-5 * max(float(jnp.abs(plain[path]).max()), least)
        np.testing.assert_allclose(found, plain[path], rtol=0, atol=bound, err_msg=path)

"""What every model family promises; a new family is a new row in ``MODELS``."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.errors import UsageError
from jax_lm.huggingface.convert import leaves_by_path
from jax_lm.models.registry import FAMILIES
from jax_lm.sharding import parameter_axes

SHAPE = {"vocab_size": 23, "context_length": 12, "num_layers": 2, "num_heads": 2, "embed_dim": 16}
AXIS_WORDS = set(["embed", "heads", "kv_heads", "head_dim", "mlp", "vocab", "context", "layers"])
IDS = np.random.default_rng(0).integers(0, 23, (3, 12)).astype(np.int32)
VARIANTS = {"as published": {}, "no biases": {"bias": False}}


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS.keys())
def changes(request):
    return request.param


@pytest.fixture(params=FAMILIES)
def model(request, changes):
    family = FAMILIES[request.param]
    config = family.config(**{**SHAPE, "init_std": 0.3, **changes})
    return init(family, config)


def init(family, config):
    return jax.jit(family.model.init, static_argnums=1)(jax.random.key(0), config)


def ids(width: int = 12) -> jax.Array:
    return jnp.asarray(IDS[:, :width])


@eqx.filter_jit
def forward(model, input_ids, **options):
    return model(input_ids, **options)


@jax.jit
def decode(model, input_ids, cache):
    return model.decode(input_ids, cache)


@eqx.filter_jit
def loss_gradient(model, remat):
    return jax.grad(lambda m: (m(ids(), remat=remat) ** 3).sum())(model)


def test_no_position_depends_on_a_later_one(model):
    """By the gradient of each position's output with respect to each input embedding."""

    direction = jax.random.normal(jax.random.key(1), (16,))

    def outputs(embedded):
        # Position i embeds token i, so the embedding's rows are the inputs.
        moved = eqx.tree_at(lambda m: m.token_embedding, model, embedded)
        return moved(jnp.arange(12)[None])[0] @ direction

    jacobian = np.asarray(jax.jit(jax.jacrev(outputs))(model.token_embedding))[:, :12]
    influence = np.abs(jacobian).sum(axis=-1)
    assert np.array_equal(influence > 0, np.tril(np.ones((12, 12), bool)))


def test_scanned_equals_unrolled(model):
    np.testing.assert_allclose(forward(model, ids()), forward(model, ids(), unroll=True), atol=1e-5)


def test_remat_changes_nothing(model):
    plain = leaves_by_path(loss_gradient(model, False))
    for path, gradient in leaves_by_path(loss_gradient(model, True)).items():
        bound = 1e-5 * max(float(jnp.abs(plain[path]).max()), 1.0)
        np.testing.assert_allclose(gradient, plain[path], rtol=0, atol=bound, err_msg=path)


def test_decoding_with_a_cache_equals_the_full_forward(model):
    expected = forward(model, ids())
    hidden, cache = decode(model, ids(5), model.empty_cache(3, 16))
    parts = [hidden]
    for i in range(5, 12):
        hidden, cache = decode(model, ids()[:, i : i + 1], cache)
        parts.append(hidden)
    np.testing.assert_allclose(jnp.concatenate(parts, axis=1), expected, atol=1e-5)
    assert cache.lengths.tolist() == [12, 12, 12]


def test_a_ragged_prefill_equals_the_full_forward(model):
    lengths = np.array([7, 1, 4])
    padded = np.where(np.arange(7)[None] < lengths[:, None], IDS[:, :7], 22).astype(np.int32)
    hidden, cache = decode(model, jnp.asarray(padded), model.empty_cache(3, 12))
    cache = cache._replace(lengths=jnp.asarray(lengths, jnp.int32))
    expected = np.asarray(forward(model, ids()))
    for row, length in enumerate(lengths):
        np.testing.assert_allclose(hidden[row, :length], expected[row, :length], atol=1e-5)
    for step in range(4):
        newest = IDS[np.arange(3), lengths + step][:, None]
        hidden, cache = decode(model, jnp.asarray(newest), cache)
        wanted = expected[np.arange(3), lengths + step]
        np.testing.assert_allclose(hidden[:, 0], wanted, atol=1e-5, err_msg=f"step {step}")


def test_padding_on_the_right_is_not_seen(model):
    padded = ids().at[:, 8:].set(0)
    np.testing.assert_array_equal(forward(model, padded)[:, :8], forward(model, ids())[:, :8])


def test_every_leaf_is_an_array_and_every_other_field_static(model):
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(model))
    hash(jax.tree.structure(model))  # what jax.jit needs of the fields that are not arrays


def test_every_parameter_names_its_axes(model):
    axes = jax.tree.leaves(parameter_axes(model), is_leaf=lambda x: isinstance(x, tuple))
    leaves = leaves_by_path(model)
    for (path, leaf), names in zip(leaves.items(), axes, strict=True):
        assert len(names) == leaf.ndim, path
        assert set(names) <= AXIS_WORDS, path
        assert (names[0] == "layers") == path.startswith("blocks."), path


def test_axis_words_mean_one_size_each(model):
    axes = jax.tree.leaves(parameter_axes(model), is_leaf=lambda x: isinstance(x, tuple))
    sizes: dict[str, set[int]] = {}
    for leaf, names in zip(jax.tree.leaves(model), axes, strict=True):
        for name, size in zip(names, leaf.shape, strict=True):
            sizes.setdefault(name, set()).add(size)
    assert all(len(found) == 1 for found in sizes.values()), sizes


def test_the_unembedding_gives_a_logit_for_every_id(model):
    assert model.unembedding.shape == (23, 16)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
def test_dropout_is_a_function_of_its_key(family):
    config = family.config(**{**SHAPE, "num_layers": 1}, dropout=0.5)
    model = init(family, config)
    first = forward(model, ids(), key=jax.random.key(1))
    np.testing.assert_array_equal(first, forward(model, ids(), key=jax.random.key(1)))
    assert not np.allclose(first, forward(model, ids(), key=jax.random.key(2)))
    inference = dataclasses.replace(config, dropout=0.0)
    like = jax.eval_shape(lambda key: family.model.init(key, inference), jax.random.key(0))
    without = jax.tree.unflatten(jax.tree.structure(like), jax.tree.leaves(model))
    np.testing.assert_array_equal(forward(model, ids()), forward(without, ids()))


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
def test_the_initial_model_knows_nothing(family):
    """Logits near zero: the loss of a fresh model is that of a uniform guess."""
    model = init(family, family.config(**SHAPE))
    logits = forward(model, ids()) @ model.unembedding.T
    assert float(jnp.abs(logits).max()) < 1.0


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
def test_a_width_that_the_heads_do_not_divide_is_refused(family):
    with pytest.raises(UsageError, match="16 is not a multiple of num_heads 3"):
        family.config(**{**SHAPE, "num_heads": 3})

"""What holds for every optimizer."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.optimizers.build import make_optimizer
from jax_lm.optimizers.config import OptimizerConfig
from jax_lm.optimizers.trainable import trainable_mask
from tests.optimizers.small_model import (
    NAMES,
    named_leaves,
    of_layer,
    small_model,
    take_steps,
)

GRADIENTS = [small_model(seed) for seed in (1, 2, 3)]
MOMENTS = {"adamw": {"mu"}, "adafactor": set(), "lion": {"mu"}, "sgd": {"trace"}, "muon": {"mu"}}


def config_of(name: str, **options: Any) -> OptimizerConfig:
    return OptimizerConfig(
        **{"name": name, "learning_rate": 0.01, "schedule": "constant", "clip_norm": 0.0} | options
    )


def leaves_of(*trees: Any) -> list[Any]:
    return jax.tree.leaves(trees)


@pytest.fixture(scope="module", params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def after(name: str) -> Any:
    """Model and state after three steps."""
    return take_steps(config_of(name), small_model(), GRADIENTS)


def test_steps_change_every_parameter_and_are_the_same_each_time(name: str, after: Any) -> None:
    model, state = after
    again, state_again = take_steps(config_of(name), small_model(), GRADIENTS)
    for mine, other in zip(leaves_of(model, state), leaves_of(again, state_again), strict=True):
        np.testing.assert_array_equal(mine, other)
    for old, new in zip(leaves_of(small_model()), leaves_of(model), strict=True):
        assert np.isfinite(new).all() and (np.asarray(old) != new).mean() > 0.99


def test_state_lies_under_paths_of_parameters(after: Any) -> None:
    """By these paths the state is placed on devices as the parameters are."""
    model, state = after
    shapes = {path: leaf.shape for path, leaf in named_leaves(model).items()}
    for path, leaf in named_leaves(state).items():
        owner = next((known for known in shapes if path.endswith(f".{known}")), None)
        if owner is None:
            assert leaf.ndim == 0 or path.endswith("ns_coeffs"), path
            continue
        factored = leaf.shape == (1,) or (leaf.ndim == 2 and leaf.shape[0] == shapes[owner][0])
        assert leaf.shape == shapes[owner] or (".v" in path and factored), path


def test_a_stacked_layer_moves_as_it_would_alone(name: str, after: Any) -> None:
    for layer in (0, 2):
        gradients = [of_layer(gradient, layer) for gradient in GRADIENTS]
        alone, _ = take_steps(config_of(name), of_layer(small_model(), layer), gradients)
        same = of_layer(after[0], layer).blocks
        for expected, found in zip(leaves_of(alone.blocks), leaves_of(same), strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


def test_frozen_parameters_and_layers_keep_their_bits(name: str) -> None:
    """Weight decay does not touch them either, nor do they count in the norm that is clipped."""
    freeze = ("token_embedding", "blocks.0-1.attention.*", "blocks.2.up_weight")
    config = config_of(name, freeze=freeze, clip_norm=0.5, weight_decay=0.5)
    model = small_model()
    negative_zero = model.blocks.attention.query_weight.at[0, 0].set(-0.0)
    model = eqx.tree_at(lambda m: m.blocks.attention.query_weight, model, negative_zero)
    mask = trainable_mask(model, freeze)
    assert not mask.token_embedding and mask.blocks.attention.query_weight
    trained, frozen = eqx.partition(model, mask)
    gradients = [eqx.filter(gradient, mask) for gradient in GRADIENTS]
    after, state = take_steps(config, trained, gradients)
    assert not any("token_embedding" in path for path in named_leaves(state))
    assert after.token_embedding is None
    found = eqx.combine(after, frozen).blocks
    old, new = model.blocks, found
    for before, now in zip(leaves_of(old.attention), leaves_of(new.attention), strict=True):
        assert before[:2].tobytes() == now[:2].tobytes()
        assert (before[2] != now[2]).all()
    assert old.up_weight[2].tobytes() == new.up_weight[2].tobytes()
    assert (old.up_weight[:2] != new.up_weight[:2]).mean() > 0.99

    huge = jax.tree.map(lambda leaf: leaf, gradients[0])
    huge = eqx.tree_at(lambda m: m.blocks.up_weight, huge, huge.blocks.up_weight.at[2].set(1e6))
    again, _ = take_steps(config, trained, [huge, *gradients[1:]])
    for one, other in zip(leaves_of(after), leaves_of(again), strict=True):
        np.testing.assert_array_equal(one, other)


def test_moments_in_bfloat16(name: str) -> None:
    if name == "adafactor":
        pytest.skip("keeps no mean, and refuses the flag")
    optimizer = make_optimizer(config_of(name, moment_dtype="bfloat16"), 10)
    model = small_model()
    state = jax.eval_shape(optimizer.init, model)
    updates, after = jax.eval_shape(optimizer.update, model, state, model)
    assert {leaf.dtype for leaf in leaves_of(updates)} == {jnp.dtype("float32")}
    for kept in (state, after):
        arrays = {path: leaf for path, leaf in named_leaves(kept).items() if leaf.size > 3}
        halved = {path for path, leaf in arrays.items() if leaf.dtype == jnp.bfloat16}
        assert halved == {path for path in arrays if MOMENTS[name] & set(path.split("."))}
        assert halved


def test_a_rounded_mean_moves_the_weights_almost_alike() -> None:
    exact, _ = take_steps(config_of("adamw"), small_model(), GRADIENTS)
    rounded, _ = take_steps(config_of("adamw", moment_dtype="bfloat16"), small_model(), GRADIENTS)
    for one, other in zip(leaves_of(exact), leaves_of(rounded), strict=True):
        assert 0 < np.abs(one - other).max() < 0.02 * 0.01 * len(GRADIENTS)


def test_gradients_are_clipped_by_their_global_norm() -> None:
    config = config_of("sgd", momentum=0.0, weight_decay=0.0, clip_norm=0.25, learning_rate=1.0)
    model = small_model()
    moved, _ = take_steps(config, model, GRADIENTS[:1])
    change = jax.tree.map(lambda old, new: np.asarray(old) - new, model, moved)
    norm = np.sqrt(sum(np.square(leaf).sum() for leaf in leaves_of(change)))
    assert norm == pytest.approx(0.25, rel=1e-4)
    short = jax.tree.map(lambda leaf: leaf * 1e-4, GRADIENTS[0])
    moved, _ = take_steps(config, model, [short])
    np.testing.assert_allclose(
        moved.token_embedding, model.token_embedding - short.token_embedding, rtol=1e-6
    )


@pytest.mark.parametrize("name", ["adamw", "adafactor", "muon"])
def test_weight_decay_is_decoupled_and_spares_biases_and_norms(name: str) -> None:
    """Without a gradient the weights shrink by learning rate times decay, and nothing else."""
    model = small_model()
    zeros = jax.tree.map(jnp.zeros_like, model)
    options = {"weight_decay": 0.5, "learning_rate": 0.1, "decay_embeddings": False}
    after, _ = take_steps(config_of(name, **options), model, [zeros, zeros])
    shrunk = 0.95**2
    np.testing.assert_allclose(after.blocks.up_weight, model.blocks.up_weight * shrunk, rtol=1e-5)
    attention, before = after.blocks.attention, model.blocks.attention
    np.testing.assert_allclose(attention.query_weight, before.query_weight * shrunk, rtol=1e-5)
    np.testing.assert_array_equal(attention.query_bias, before.query_bias)
    np.testing.assert_array_equal(after.blocks.norm_scale, model.blocks.norm_scale)
    np.testing.assert_array_equal(after.token_embedding, model.token_embedding)

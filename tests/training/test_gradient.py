"""Parts of a batch add up to the whole; float16 finds a loss scale."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.models.gpt2 import GPT2Config
from jax_lm.models.low_rank import LoraConfig
from jax_lm.models.registry import init_model
from jax_lm.optimizers.build import make_optimizer
from jax_lm.optimizers.config import OptimizerConfig
from jax_lm.training.config import TrainConfig
from jax_lm.training.gradient import make_gradient
from jax_lm.training.loss_scale import GROWTH_STEPS, INITIAL_SCALE, LossScale
from jax_lm.training.state import TrainState, init_state
from jax_lm.training.step import StepMetrics, make_train_step
from jax_lm.types import Batch

ROWS, LENGTH = 32, 6
CONFIG = TrainConfig(
    model=GPT2Config(
        vocab_size=128, context_length=LENGTH, num_layers=2, num_heads=2, embed_dim=16, dropout=0.1
    ),
    steps=10,
    batch_size=ROWS,
)
KEY = jax.random.key(3)


def uneven_batch() -> Batch:
    """Row r has weight at few or many positions; some rows have none."""
    draws = np.random.default_rng(0)
    ids = draws.integers(0, 128, (ROWS, LENGTH + 1)).astype(np.int32)
    mask = np.arange(LENGTH)[None] < draws.integers(0, LENGTH + 1, (ROWS, 1))
    return Batch(input_ids=ids[:, :-1], targets=ids[:, 1:], loss_mask=mask.astype(np.float32))


def test_a_batch_in_four_parts_has_the_gradient_of_the_whole() -> None:
    model = init_model(jax.random.key(0), CONFIG.model)
    found = []
    for parts in (1, 4):
        config = replace(CONFIG, accumulation_steps=parts)
        compute = jax.jit(make_gradient(config, KEY))
        found.append(compute(model, uneven_batch(), jnp.int32(5), jnp.float32(1)))
    (whole, losses), (summed, of_parts) = found
    assert float(of_parts.cross_entropy) == pytest.approx(float(losses.cross_entropy), rel=1e-6)
    for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(summed), strict=True):
        np.testing.assert_allclose(other, one, atol=1e-6)
    assert max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(whole)) > 1e-3


def test_a_sample_counts_as_much_in_a_part_as_in_the_whole() -> None:
    model = init_model(jax.random.key(0), CONFIG.model)
    found = []
    for parts in (1, 2):
        config = replace(CONFIG, accumulation_steps=parts, loss_reduction="sample")
        compute = jax.jit(make_gradient(config, KEY))
        losses = compute(model, uneven_batch(), jnp.int32(0), jnp.float32(1))[1]
        found.append(float(losses.cross_entropy))
    assert found[1] == pytest.approx(found[0], rel=1e-6)


def test_the_loss_scale_halves_and_doubles() -> None:
    yes, no = jnp.bool_(True), jnp.bool_(False)
    scale = LossScale.init().after(no)
    assert float(scale.value) == INITIAL_SCALE / 2
    scale = LossScale(scale.value, jnp.int32(GROWTH_STEPS - 2)).after(yes)
    assert (float(scale.value), int(scale.finite_steps)) == (INITIAL_SCALE / 2, GROWTH_STEPS - 1)
    scale = scale.after(yes)
    assert (float(scale.value), int(scale.finite_steps)) == (INITIAL_SCALE, 0)
    least = LossScale(jnp.float32(1), jnp.int32(7)).after(no)
    assert (float(least.value), int(least.finite_steps)) == (1.0, 0)


def taken(config: TrainConfig, state: TrainState, steps: int) -> tuple[TrainState, Any]:
    step = make_train_step(make_optimizer(config.optimizer, 10), KEY, config)
    metrics: list[StepMetrics] = []
    for _ in range(steps):
        state, found = step(state, uneven_batch())
        metrics.append(jax.device_get(found))
    return state, metrics


def test_float16_trains_as_float32_does_and_survives_an_overflow() -> None:
    config = replace(CONFIG, dtype="float16", model=replace(CONFIG.model, dropout=0.0))
    optimizer = make_optimizer(config.optimizer, 10)
    state = init_state(jax.random.key(0), config, optimizer)
    # So large a scale overflows float16 at first: the step is skipped, and is no divergence.
    huge = LossScale(jnp.float32(2.0**30), jnp.int32(0))
    before = jax.device_get(state.model)
    state = replace(state, optimizer=replace(state.optimizer, loss_scale=huge))
    state, (first,) = taken(config, state, 1)
    assert (int(first.skipped_steps), int(first.bad_steps)) == (1, 0)
    assert np.isfinite(first.loss)
    for one, other in zip(jax.tree.leaves(before), jax.tree.leaves(state.model), strict=True):
        np.testing.assert_array_equal(one, other)

    state = init_state(jax.random.key(0), config, optimizer)
    _, half = taken(config, state, 3)
    whole_config = replace(config, dtype="float32")
    _, whole = taken(whole_config, init_state(jax.random.key(0), whole_config, optimizer), 3)
    assert [float(m.loss) for m in half] == pytest.approx([float(m.loss) for m in whole], rel=3e-3)
    assert float(half[0].grad_norm) == pytest.approx(float(whole[0].grad_norm), rel=1e-2)
    assert float(half[0].loss_scale) == INITIAL_SCALE


def test_the_average_follows_the_weights() -> None:
    config = replace(CONFIG, optimizer=OptimizerConfig(ema_decay=0.5))
    optimizer = make_optimizer(config.optimizer, 10)
    state, _ = taken(config, init_state(jax.random.key(0), config, optimizer), 3)
    assert state.evaluated.token_embedding is state.average.token_embedding
    moved = state.model.token_embedding - state.evaluated.token_embedding
    assert 0 < float(jnp.abs(moved).max()) < 0.1


def test_low_rank_training_leaves_the_weights_alone() -> None:
    config = replace(CONFIG, lora=LoraConfig(rank=2))
    optimizer = make_optimizer(config.optimizer, 10)
    state = init_state(jax.random.key(0), config, optimizer)
    before = jax.device_get(state.model)
    state, metrics = taken(config, state, 3)
    assert metrics[2].loss < metrics[0].loss + 0.5
    factors = before.blocks.attention.query_weight
    after = state.model.blocks.attention.query_weight
    np.testing.assert_array_equal(factors.weight, after.weight)
    np.testing.assert_array_equal(before.token_embedding, state.model.token_embedding)
    assert float(jnp.abs(after.b).max()) > 0
    moments = sum(leaf.size for leaf in jax.tree.leaves(state.optimizer.optax))
    assert moments < 0.5 * sum(leaf.size for leaf in jax.tree.leaves(state.model))


def test_what_is_frozen_has_no_average() -> None:
    optimizer_config = OptimizerConfig(ema_decay=0.5, freeze=("*_embedding",))
    config = replace(CONFIG, optimizer=optimizer_config)
    optimizer = make_optimizer(optimizer_config, 10)
    state, _ = taken(config, init_state(jax.random.key(0), config, optimizer), 2)
    assert state.average.token_embedding is None
    assert state.evaluated.token_embedding is state.model.token_embedding
    assert not np.array_equal(
        state.evaluated.blocks.attention.query_weight, state.model.blocks.attention.query_weight
    )


def test_frozen_layers_do_not_count_in_the_norm() -> None:
    whole = replace(CONFIG, optimizer=OptimizerConfig(freeze=("blocks.*", "*_norm.*")))
    layers = OptimizerConfig(freeze=("blocks.0.*", "blocks.1.*", "*_norm.*"))
    parts = replace(CONFIG, optimizer=layers)
    norms = []
    for config in (whole, parts):
        optimizer = make_optimizer(config.optimizer, 10)
        state = init_state(jax.random.key(0), config, optimizer)
        norms.append(float(taken(config, state, 1)[1][0].grad_norm))
    assert norms[0] == pytest.approx(norms[1], rel=1e-6)

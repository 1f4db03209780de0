import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.models.gpt2 import GPT2, GPT2Config
from jax_lm.optimizers import OptimizerConfig, decay_mask, learning_rate, make_optimizer


def nanogpt_rate(step: int) -> float:
    """nanoGPT's get_lr with its CPU settings, restated."""
    if step < 100:
        return 1e-3 * (step + 1) / 101
    ratio = (step - 100) / (2000 - 100)
    return 1e-4 + 0.5 * (1 + math.cos(math.pi * ratio)) * (1e-3 - 1e-4)


def test_schedule_equals_nanogpts() -> None:
    config = OptimizerConfig(learning_rate=1e-3, min_learning_rate=1e-4, warmup_steps=100)
    for step in (0, 1, 99, 100, 777, 1999):
        assert float(learning_rate(config, 2000, step)) == pytest.approx(
            nanogpt_rate(step), rel=1e-5
        )


def test_linear_and_constant_schedules() -> None:
    linear = OptimizerConfig(learning_rate=1.0, min_learning_rate=0.0, schedule="linear")
    assert float(learning_rate(linear, 10, 5)) == pytest.approx(0.5)
    constant = OptimizerConfig(learning_rate=1.0, schedule="constant")
    assert float(learning_rate(constant, 10, 9)) == 1.0


@pytest.fixture
def model() -> GPT2:
    config = GPT2Config(vocab_size=7, context_length=4, num_layers=2, num_heads=1, embed_dim=4)
    return GPT2.init(jax.random.key(0), config)


def test_biases_and_norm_scales_are_not_decayed(model: GPT2) -> None:
    mask = decay_mask(model, embeddings=True)
    decayed = {
        jax.tree_util.keystr(path): keep for path, keep in jax.tree_util.tree_leaves_with_path(mask)
    }
    assert {name for name, keep in decayed.items() if not keep} == {
        name for name in decayed if name.endswith(("bias", ".scale"))
    }
    assert decayed[".token_embedding"]
    assert not decay_mask(model, embeddings=False).token_embedding


def test_update_equals_adamw_written_out(model: GPT2) -> None:
    """Two steps of clipped AdamW in NumPy float64 for one matrix and one bias."""
    config = OptimizerConfig(
        learning_rate=0.1, schedule="constant", weight_decay=0.5, clip_norm=1.0, beta2=0.9
    )
    optimizer = make_optimizer(config, 10)
    gradient = jax.tree.map(lambda leaf: jnp.full_like(leaf, 0.3), model)
    norm = 0.3 * math.sqrt(sum(leaf.size for leaf in jax.tree.leaves(model)))
    state = optimizer.init(model)
    params = model
    for _ in range(2):
        updates, state = optimizer.update(gradient, state, params)
        params = jax.tree.map(lambda p, u: p + u, params, updates)

    def expected(start: np.ndarray, decay: float) -> np.ndarray:
        value, mean, square, g = start.astype(np.float64), 0.0, 0.0, 0.3 / norm
        for step in (1, 2):
            mean, square = 0.9 * mean + 0.1 * g, 0.9 * square + 0.1 * g * g
            direction = (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.9**step)) + 1e-8)
            value = value - 0.1 * (direction + decay * value)
        return value

    matrix = np.asarray(model.token_embedding)
    np.testing.assert_allclose(params.token_embedding, expected(matrix, 0.5), rtol=1e-4)
    bias = np.asarray(model.final_norm.bias)
    np.testing.assert_allclose(params.final_norm.bias, expected(bias, 0.0), rtol=1e-4)

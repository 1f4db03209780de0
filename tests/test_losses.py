import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm import losses
from jax_lm.losses import token_losses, weighted_loss

RANDOM = np.random.default_rng(0)
HIDDEN = RANDOM.normal(size=(3, 8, 16)).astype(np.float32)
UNEMBEDDING = RANDOM.normal(size=(29, 16)).astype(np.float32)
TARGETS = RANDOM.integers(0, 29, (3, 8)).astype(np.int32)


def reference() -> tuple[np.ndarray, np.ndarray]:
    """-log p and whether the target is the most probable token, in float64."""
    logits = np.einsum("bte,ve->btv", HIDDEN, UNEMBEDDING, dtype=np.float64)
    log_sum = np.log(np.exp(logits).sum(axis=-1))
    chosen = np.take_along_axis(logits, TARGETS[..., None], axis=-1)[..., 0]
    return log_sum - chosen, logits.argmax(axis=-1) == TARGETS


def computed(hidden=HIDDEN):
    return token_losses(jnp.asarray(hidden), jnp.asarray(UNEMBEDDING), jnp.asarray(TARGETS))


@pytest.mark.parametrize("max_block_logits", [1 << 22, 29 * 6, 29, 1])
def test_losses_equal_a_float64_restatement_whatever_the_blocks(monkeypatch, max_block_logits):
    monkeypatch.setattr(losses, "MAX_BLOCK_LOGITS", max_block_logits)
    actual, correct = computed()
    expected, expected_correct = reference()
    np.testing.assert_allclose(actual, expected, atol=1e-5)
    np.testing.assert_array_equal(correct, expected_correct)


def test_gradients_do_not_depend_on_blocks(monkeypatch):
    def gradients(max_block_logits: int):
        monkeypatch.setattr(losses, "MAX_BLOCK_LOGITS", max_block_logits)

        def loss(hidden, unembedding):
            return token_losses(hidden, unembedding, jnp.asarray(TARGETS))[0].mean()

        return jax.grad(loss, argnums=(0, 1))(jnp.asarray(HIDDEN), jnp.asarray(UNEMBEDDING))

    for whole, blocked in zip(gradients(1 << 22), gradients(29 * 4), strict=True):
        np.testing.assert_allclose(blocked, whole, atol=1e-6)


def test_blocks_cover_the_sequence_and_keep_the_bound():
    for batch, seq, vocab in ((2, 12, 29), (8, 256, 8192), (7, 1021, 50257), (1, 1, 10**8)):
        blocks, length = losses._blocks(batch, seq, vocab)
        assert (blocks - 1) * length < seq <= blocks * length
        assert batch * length * vocab <= losses.MAX_BLOCK_LOGITS or length == 1
        assert blocks <= 2 * -(-batch * seq * vocab // losses.MAX_BLOCK_LOGITS) or length == 1


def test_the_mean_is_weighted():
    values = jnp.array([[1.0, 2.0], [4.0, 100.0]])
    weights = jnp.array([[1.0, 0.5], [2.0, 0.0]])
    assert float(weighted_loss(values, weights)) == pytest.approx((1 + 1 + 8) / 3.5)


def test_no_weight_gives_zero_and_a_finite_gradient():
    zeros = jnp.zeros((3, 8))
    value, gradient = jax.value_and_grad(lambda x: weighted_loss(x, zeros))(jnp.ones((3, 8)))
    assert float(value) == 0.0
    assert np.isfinite(gradient).all()


def test_extreme_hidden_states_give_finite_losses_and_gradients():
    def loss(hidden):
        return computed(hidden)[0].mean()

    value, gradient = jax.value_and_grad(loss)(jnp.asarray(HIDDEN) * 1e4)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_bfloat16_hidden_states_are_scored_in_float32():
    hidden = jnp.asarray(HIDDEN, jnp.bfloat16)
    unembedding = jnp.asarray(UNEMBEDDING, jnp.bfloat16)
    actual, _ = token_losses(hidden, unembedding, jnp.asarray(TARGETS))
    assert actual.dtype == jnp.float32
    expected, _ = token_losses(
        hidden.astype(jnp.float32), unembedding.astype(jnp.float32), jnp.asarray(TARGETS)
    )
    np.testing.assert_allclose(actual, expected, atol=1e-4)

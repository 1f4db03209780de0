import json
import os
import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm import losses
from jax_lm.losses import mean_loss, token_losses, token_shares
from jax_lm.models.base import Unembedding
from tests.conftest import FAST_COMPILATION

RANDOM = np.random.default_rng(0)
VOCAB = 29
HIDDEN = RANDOM.normal(size=(3, 8, 16)).astype(np.float32)
WEIGHT = RANDOM.normal(size=(VOCAB, 16)).astype(np.float32)
BIAS = RANDOM.normal(size=VOCAB).astype(np.float32)
TARGETS = RANDOM.integers(0, VOCAB, (3, 8)).astype(np.int32)
WEIGHTS = RANDOM.integers(0, 3, (3, 8)).astype(np.float32)
EXTRAS = [
    {},
    {"label_smoothing": 0.1},
    {"z_loss": 1e-2},
    {"label_smoothing": 0.2, "z_loss": 1e-3},
]


def unembedding(*, bias=True, rows=VOCAB, dtype=jnp.float32) -> Unembedding:
    """The output matrix, padded to ``rows`` with what must not matter."""
    weight = jnp.full((rows, 16), 7.0, dtype).at[:VOCAB].set(WEIGHT.astype(dtype))
    offsets = jnp.full(rows, 50.0, dtype).at[:VOCAB].set(BIAS.astype(dtype))
    return Unembedding(weight, offsets if bias else None, VOCAB)


def restated(hidden, weight, bias, targets, label_smoothing=0.0, z_loss=0.0, xp=np):
    """Cross-entropy, whether correct, and the objective, with all logits at once."""
    logits = hidden @ weight.T + bias
    log_z = xp.log(xp.exp(logits).sum(axis=-1))
    log_p = logits - log_z[..., None]
    cross_entropy = -xp.take_along_axis(log_p, targets[..., None], axis=-1)[..., 0]
    smooth = (1 - label_smoothing) * cross_entropy - label_smoothing * log_p.mean(axis=-1)
    return cross_entropy, logits.argmax(axis=-1) == targets, smooth + z_loss * log_z**2


def blocks_of(monkeypatch, logits: int) -> None:
    """Let every block hold at most so many logits."""
    monkeypatch.setattr(losses, "MAX_BLOCK_LOGITS", {"cpu": logits})


@pytest.mark.parametrize("extras", EXTRAS)
@pytest.mark.parametrize("max_block_logits", [1 << 22, 3 * VOCAB * 3])
def test_losses_equal_a_float64_restatement_whatever_the_blocks(
    monkeypatch, max_block_logits, extras
):
    blocks_of(monkeypatch, max_block_logits)
    score = jax.jit(partial(token_losses, **extras))
    actual = score(jnp.asarray(HIDDEN), unembedding(), jnp.asarray(TARGETS))
    wide = [array.astype(np.float64) for array in (HIDDEN, WEIGHT, BIAS)]
    expected = restated(*wide, TARGETS, **extras)
    np.testing.assert_allclose(actual.losses, expected[0], atol=1e-5)
    np.testing.assert_array_equal(actual.correct, expected[1])
    np.testing.assert_allclose(actual.minimised, expected[2], rtol=1e-6, atol=1e-5)


def test_without_extras_the_objective_is_the_cross_entropy():
    actual = token_losses(jnp.asarray(HIDDEN), unembedding(bias=False), jnp.asarray(TARGETS))
    np.testing.assert_array_equal(actual.minimised, actual.losses)


@pytest.mark.parametrize("extras", EXTRAS)
@pytest.mark.parametrize(
    ("reduction", "max_block_logits"), [("token", 1 << 22), ("sample", 3 * VOCAB * 3)]
)
def test_the_mean_and_its_gradients_equal_the_plain_computation(
    monkeypatch, extras, reduction, max_block_logits
):
    blocks_of(monkeypatch, max_block_logits)
    shares = token_shares(jnp.asarray(WEIGHTS), reduction)

    def plain(hidden, unembedding):
        weight, bias = unembedding.weight, unembedding.bias[None, None]
        found = restated(hidden, weight, bias, jnp.asarray(TARGETS), **extras, xp=jnp)
        return (found[2] * shares).sum(), (found[0] * shares).sum()

    def ours(hidden, unembedding):
        return mean_loss(hidden, unembedding, jnp.asarray(TARGETS), shares, **extras)

    inputs = jnp.asarray(HIDDEN), unembedding()
    both = [jax.jit(jax.value_and_grad(f, (0, 1), has_aux=True))(*inputs) for f in (plain, ours)]
    for expected, actual in zip(*map(jax.tree.leaves, both), strict=True):
        np.testing.assert_allclose(actual, expected, atol=1e-6, rtol=1e-6)
    undifferentiated = jax.jit(ours)(*inputs)
    for expected, actual in zip(both[1][0], undifferentiated, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_gradients_of_token_losses_do_not_depend_on_blocks(monkeypatch):
    def gradients(max_block_logits: int):
        blocks_of(monkeypatch, max_block_logits)

        def loss(hidden, unembedding):
            return token_losses(hidden, unembedding, jnp.asarray(TARGETS)).minimised.mean()

        return jax.jit(jax.grad(loss, argnums=(0, 1)))(jnp.asarray(HIDDEN), unembedding())

    for whole, blocked in zip(
        *map(jax.tree.leaves, map(gradients, (1 << 22, 29 * 4))), strict=True
    ):
        np.testing.assert_allclose(blocked, whole, atol=1e-6)


@pytest.mark.parametrize("extras", [EXTRAS[0], EXTRAS[-1]])
def test_padding_of_the_vocabulary_changes_nothing(extras):
    inputs = jnp.asarray(HIDDEN), jnp.asarray(TARGETS)
    shares = token_shares(jnp.asarray(WEIGHTS))

    def both(rows: int):
        score = jax.jit(partial(token_losses, **extras))
        scored = score(inputs[0], unembedding(rows=rows), inputs[1])

        def mean(hidden, unembedding):
            return mean_loss(hidden, unembedding, inputs[1], shares, **extras)[0]

        return scored, jax.jit(jax.grad(mean, (0, 1)))(inputs[0], unembedding(rows=rows))

    (exact, (hidden, small)), (padded, (padded_hidden, large)) = both(VOCAB), both(40)
    for expected, actual in zip(exact, padded, strict=True):
        np.testing.assert_allclose(actual, expected, atol=2e-6)  # two roundings of log Z, about 15
    np.testing.assert_allclose(padded_hidden, hidden, atol=3e-7)
    for expected, actual in ((small.weight, large.weight), (small.bias, large.bias)):
        np.testing.assert_allclose(actual[:VOCAB], expected, atol=3e-7)
        np.testing.assert_array_equal(actual[VOCAB:], 0.0)


def test_blocks_cover_the_sequence_and_keep_the_bound():
    limit = losses.MAX_BLOCK_LOGITS["cpu"]
    for batch, seq, vocab in ((2, 12, 29), (8, 256, 8192), (7, 1021, 50257), (1, 1, 10**6)):
        split = losses._split(batch, seq, vocab)
        assert (split.blocks - 1) * split.length < seq <= split.blocks * split.length
        allowed = limit * min(batch, jax.device_count())
        assert batch * split.length * vocab <= allowed or split.length == 1
        assert split.blocks <= 2 * -(-batch * seq * vocab // allowed) or split.length == 1


def test_the_mean_is_weighted_by_token_or_first_within_each_sample():
    values = jnp.array([[1.0, 2.0], [4.0, 100.0], [9.0, 9.0]])
    weights = jnp.array([[1.0, 0.5], [2.0, 0.0], [0.0, 0.0]])
    assert float((values * token_shares(weights)).sum()) == pytest.approx((1 + 1 + 8) / 3.5)
    by_sample = (values * token_shares(weights, "sample")).sum()
    assert float(by_sample) == pytest.approx((2 / 1.5 + 4) / 2)


@pytest.mark.parametrize("reduction", ["token", "sample"])
def test_no_weight_gives_zero_and_a_finite_gradient(reduction):
    zeros = jnp.zeros((3, 8))
    assert (np.asarray(token_shares(zeros, reduction)) == 0.0).all()
    assert float(token_shares(zeros, reduction).sum()) == 0.0


def test_extreme_hidden_states_give_finite_losses_and_gradients():
    def loss(hidden):
        return mean_loss(hidden, unembedding(rows=40), jnp.asarray(TARGETS), jnp.ones((3, 8)))[0]

    value, gradient = jax.jit(jax.value_and_grad(loss))(jnp.asarray(HIDDEN) * 1e4)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_bfloat16_hidden_states_are_scored_in_float32(monkeypatch):
    blocks_of(monkeypatch, 29 * 9)
    hidden, low = jnp.asarray(HIDDEN, jnp.bfloat16), unembedding(dtype=jnp.bfloat16)
    wide = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), (hidden, low))
    actual = token_losses(hidden, low, jnp.asarray(TARGETS)).losses
    assert actual.dtype == jnp.float32
    expected = token_losses(*wide, jnp.asarray(TARGETS)).losses
    np.testing.assert_allclose(actual, expected, atol=1e-4)

    def gradients(inputs):
        def mean(hidden, unembedding):
            shares = token_shares(jnp.asarray(WEIGHTS))
            return mean_loss(hidden, unembedding, jnp.asarray(TARGETS), shares)[0]

        return jax.tree.leaves(jax.jit(jax.grad(mean, (0, 1)))(*inputs))

    for rough, exact in zip(gradients((hidden, low)), gradients(wide), strict=True):
        assert rough.dtype == jnp.bfloat16
        error = np.linalg.norm(np.asarray(rough, np.float32) - exact) / np.linalg.norm(exact)
        assert error < 0.01


SHARDED = """
import json, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from jax_lm import losses
from jax_lm.models.base import Unembedding

losses.MAX_BLOCK_LOGITS = {"cpu": 32 * 4}  # of each of 4 devices: 2 blocks of 4 of 8 positions
random = np.random.default_rng(0)
hidden = jnp.asarray(random.normal(size=(4, 8, 16)), jnp.float32)
weight = jnp.asarray(random.normal(size=(32, 16)), jnp.float32)
targets = jnp.asarray(random.integers(0, 30, (4, 8)))
shares = jnp.full((4, 8), 1 / 32)

def loss(hidden, weight, targets, shares):
    return losses.mean_loss(hidden, Unembedding(weight, None, 30), targets, shares)[0]

gradient = jax.jit(jax.value_and_grad(loss, (0, 1)))
mesh = jax.make_mesh((4,), ("data",), axis_types=(AxisType.Auto,))
split, whole = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (("data",), ()))
inputs = jax.device_put((hidden, weight, targets, shares), (split, whole, split, split))
compiled = gradient.lower(*inputs).compile()
pairs = zip(*map(jax.tree.leaves, (compiled(*inputs), gradient(hidden, weight, targets, shares))))
worst = max(float(abs(np.asarray(a) - np.asarray(b)).max()) for a, b in pairs)
print(json.dumps({"gathers": compiled.as_text().count("all-gather"), "worst": worst}))
"""


def test_a_batch_split_over_devices_is_not_gathered():
    devices = "--xla_force_host_platform_device_count=4"
    flags = {"XLA_FLAGS": f"{FAST_COMPILATION} {devices}", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", SHARDED],
        env={**os.environ, **flags},
        stdout=subprocess.PIPE,
        timeout=120,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["gathers"] == 0
    assert found["worst"] < 1e-6

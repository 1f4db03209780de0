"""Attention against a slow restatement in float64, and which kernel is chosen when."""

import itertools
import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.models.layers import dot_product
from jax_lm.models.layers.attention_kernel import Platform, Request, kernel_for
from jax_lm.models.layers.dot_product import attend
from jax_lm.models.layers.dropout import DropoutKey
from jax_lm.models.layers.mask import (
    AttentionMask,
    bidirectional_mask,
    cached_mask,
    causal_mask,
    cross_mask,
)

BATCH, HEADS, SEQ, HEAD_DIM = 2, 4, 6, 8
SEGMENTS = jnp.array([[1, 1, 2, 2, 2, 0], [0, 0, 1, 1, 1, 1]])
PADDED_ROW = jnp.array([[1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0]])
SLOTS = jnp.array([[2, 3, 4, 5, 6, 7], [0, 1, 2, 3, 4, 5]])
MASKS = {
    "full": (bidirectional_mask(None), SEQ),
    "causal": (causal_mask(), SEQ),
    "causal, window": (causal_mask(window=3), SEQ),
    "causal, segments": (causal_mask(SEGMENTS), SEQ),
    "causal, segments, window": (causal_mask(SEGMENTS, 2), SEQ),
    "segments": (bidirectional_mask(SEGMENTS), SEQ),
    "only padding": (bidirectional_mask(PADDED_ROW), SEQ),
    "cross": (cross_mask(None), 8),
    "cross, segments": (cross_mask(jnp.pad(SEGMENTS, ((0, 0), (1, 1)))), 8),
    "cross, only padding": (cross_mask(PADDED_ROW), SEQ),
    "cached": (cached_mask(SLOTS), 9),
    "cached, window": (cached_mask(SLOTS, 3), 9),
}


def arrays(kv_heads: int, slots: int, head_dim: int = HEAD_DIM, seq: int = SEQ):
    """Queries, keys, values and a bias."""
    random = np.random.default_rng(0)
    shapes = [(BATCH, HEADS, seq, head_dim), *[(BATCH, kv_heads, slots, head_dim)] * 2]
    shapes.append((1, HEADS, seq, slots))
    return [random.normal(size=shape).astype(np.float32) for shape in shapes]


def sees(mask: AttentionMask, row: int, query: int, key: int) -> bool:
    """The rules of a mask, one pair at a time."""
    place = query if mask.query_slots is None else int(mask.query_slots[row, query])
    if mask.causal and key > place:
        return False
    if mask.window is not None and key <= place - mask.window:
        return False
    if mask.query_segments is not None:
        return int(mask.query_segments[row, query]) == int(mask.key_segments[row, key])
    return mask.key_segments is None or int(mask.key_segments[row, key]) > 0


def restated(query, key, value, mask, scale, bias):
    """Attention with loops over rows, heads and queries, in float64."""
    result = np.zeros(query.shape)
    group = query.shape[1] // key.shape[1]
    slots = range(key.shape[2])
    for row, head, place in itertools.product(*map(range, query.shape[:3])):
        keys = key[row, head // group].astype(np.float64)
        scores = keys @ query[row, head, place].astype(np.float64) * scale
        if bias is not None:
            scores = scores + bias[0, head, place]
        visible = np.array([sees(mask, row, place, slot) for slot in slots])
        scores = np.where(visible, scores, -np.inf) if visible.any() else np.zeros(len(slots))
        weights = np.exp(scores - scores.max())
        result[row, head, place] = weights / weights.sum() @ value[row, head // group]
    return result


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize(("kv_heads", "with_bias"), [(HEADS, False), (2, True), (1, False)])
def test_attention_equals_a_slow_restatement(name, kv_heads, with_bias):
    mask, slots = MASKS[name]
    query, key, value, bias = arrays(kv_heads, slots)
    bias, scale = (bias, 1.0) if with_bias else (None, None)
    actual = attend(
        *map(jnp.asarray, (query, key, value)),
        mask,
        scale=scale,
        bias=None if bias is None else jnp.asarray(bias),
    )
    expected = restated(query, key, value, mask, scale or HEAD_DIM**-0.5, bias)
    np.testing.assert_allclose(actual, expected, atol=3e-6)


@pytest.mark.parametrize("name", ["only padding", "cross, only padding", "causal, segments"])
def test_gradients_are_finite_also_where_rows_see_only_padding(name):
    mask, slots = MASKS[name]
    query, key, value, _ = map(jnp.asarray, arrays(2, slots))

    def total(query, key, value):
        return jnp.square(attend(query, key, value, mask)).sum()

    for gradient in jax.grad(total, (0, 1, 2))(query, key, value):
        assert np.isfinite(gradient).all()
        assert np.abs(gradient).max() > 0


def test_scores_and_softmax_are_float32_under_bfloat16():
    query, key, value, _ = arrays(HEADS, SEQ)
    low = [jnp.asarray(array, jnp.bfloat16) for array in (4 * query, 4 * key, value)]
    actual = attend(*low, causal_mask())
    assert actual.dtype == jnp.bfloat16
    expected = restated(*(np.asarray(a, np.float32) for a in low), causal_mask(), 8**-0.5, None)
    np.testing.assert_allclose(np.asarray(actual, np.float32), expected, atol=0.02)


def test_dropout_drops_weights_and_keeps_the_mean():
    query, key, _, _ = map(jnp.asarray, arrays(HEADS, SEQ))
    ones = jnp.ones((BATCH, HEADS, SEQ, HEAD_DIM))

    def sums(seed):
        options = {
            "dropout_rate": 0.5,
            "dropout_key": DropoutKey(jax.random.key(seed), jnp.arange(BATCH)),
        }
        return attend(query, key, ones, bidirectional_mask(None), **options)[..., 0]

    drawn = jax.vmap(sums)(jnp.arange(400))
    assert float(drawn.mean()) == pytest.approx(1.0, abs=0.02)
    assert float(drawn.std()) > 0.1
    np.testing.assert_array_equal(
        attend(query, key, ones, causal_mask(), dropout_rate=0.5),
        attend(query, key, ones, causal_mask()),
    )


HOPPER, AMPERE, TURING = (Platform("gpu", version) for version in ((9, 0), (8, 6), (7, 5)))
TPU, CPU = Platform("tpu"), Platform("cpu")


def request(mask=None, dtype="bfloat16", seq=256, head_dim=64, kv_heads=8, **rest) -> Request:
    query, key = (4, 8, seq, head_dim), (4, kv_heads, seq, head_dim)
    return Request(query, key, dtype, causal_mask() if mask is None else mask, **rest)


LONG_SEGMENTS = jnp.ones((4, 256), int)


@pytest.mark.parametrize(
    ("on", "asked", "name", "why"),
    [
        (CPU, request(), "xla", "cpu"),
        (Platform("gpu"), request(), "xla", "gpu"),  # not NVIDIA's
        (HOPPER, request(), "cudnn", "structural"),
        (AMPERE, request(), "cudnn", "structural"),
        (TURING, request(), "xla", "8.0"),
        (HOPPER, request(dtype="float32"), "xla", "float32"),
        (HOPPER, request(dtype="float16"), "cudnn", "structural"),
        (HOPPER, request(head_dim=256), "cudnn", "structural"),
        (AMPERE, request(head_dim=256), "xla", "256"),
        (AMPERE, request(head_dim=20), "xla", "20"),
        (HOPPER, request(dropout=True), "xla", "dropout"),
        (HOPPER, request(causal_mask(window=16)), "cudnn", "structural"),
        (HOPPER, request(causal_mask(window=16), bias=True), "xla", "window"),
        (HOPPER, request(causal_mask(window=999), bias=True), "cudnn", "structural"),
        (HOPPER, request(causal_mask(LONG_SEGMENTS)), "cudnn", "dense"),
        (HOPPER, request(causal_mask(LONG_SEGMENTS), seq=255), "xla", "odd"),
        (HOPPER, request(seq=255), "cudnn", "structural"),
        (HOPPER, request(bias=True), "cudnn", "structural"),
        (HOPPER, request(cross_mask(LONG_SEGMENTS), bias=True), "xla", "bias"),
        (HOPPER, request(cross_mask(LONG_SEGMENTS)), "cudnn", "dense"),
        (HOPPER, request(cached_mask(LONG_SEGMENTS)), "xla", "cache"),
        (HOPPER, request(AttentionMask(False, 4, None, None, None)), "xla", "causal"),
        (HOPPER, request(kv_heads=2), "cudnn", "structural"),
        (TPU, request(), "pallas", "blocks"),
        (TPU, request(dtype="float32"), "pallas", "blocks"),
        (TPU, request(causal_mask(LONG_SEGMENTS)), "pallas", "blocks"),
        (Platform("tpu", devices=4), request(), "xla", "no mesh"),
        (Platform("tpu", None, 4, {"data": 2, "tensor": 2}), request(), "pallas", "blocks"),
        (Platform("tpu", None, 4, {"data": 2, "sequence": 2}), request(), "xla", "positions"),
        (HOPPER._replace(mesh={"sequence": 2}), request(), "xla", "positions"),
        (HOPPER._replace(mesh={"fsdp": 2, "tensor": 8}), request(), "cudnn", "structural"),
        (HOPPER._replace(mesh={"tensor": 8}), request(kv_heads=2), "xla", "those of keys not"),
        (HOPPER._replace(mesh={"tensor": 16}), request(kv_heads=2), "cudnn", "structural"),
        (TPU, request(seq=250), "xla", "250"),
        (TPU, request(head_dim=80), "xla", "80"),
        (TPU, request(kv_heads=2), "xla", "groups"),
        (TPU, request(bias=True), "xla", "bias"),
        (TPU, request(dropout=True), "xla", "dropout"),
        (TPU, request(causal_mask(window=16)), "xla", "window"),
        (TPU, request(cached_mask(LONG_SEGMENTS)), "xla", "cache"),
    ],
)
def test_the_kernel_is_a_function_of_platform_and_request(on, asked, name, why):
    kernel = kernel_for(on, asked)
    assert kernel.name == name
    assert why in kernel.why


def test_each_choice_is_logged_once(caplog):
    dot_product._say.cache_clear()
    query, key, value, _ = map(jnp.asarray, arrays(HEADS, SEQ))
    with caplog.at_level(logging.INFO, logger="jax_lm"):
        for _ in range(3):
            attend(query, key, value, causal_mask())
    assert [record.getMessage() for record in caplog.records] == [
        f"attention: {kernel_for(dot_product.platform(), request(dtype='float32'))}"
    ]


@pytest.mark.parametrize("name", ["full", "causal", "causal, window", "causal, segments", "cross"])
@pytest.mark.parametrize("kv_heads", [HEADS, 2])
def test_what_cudnn_is_asked_for_is_what_we_mean(monkeypatch, name, kv_heads):
    """JAX's own XLA implementation of the same call stands in for cuDNN's."""
    mask, slots = MASKS[name]
    query, key, value, bias = map(jnp.asarray, arrays(kv_heads, slots))
    theirs, asked = jax.nn.dot_product_attention, []

    def stand_in(*args, implementation, **options):
        asked.append((implementation, options))
        return theirs(*args, **options, implementation="xla")

    monkeypatch.setattr(jax.nn, "dot_product_attention", stand_in)
    monkeypatch.setattr(dot_product, "platform", lambda: HOPPER)
    low = [a.astype(jnp.bfloat16) for a in (query, key, value)]
    bias = None if "window" in name or "segments" in name else 0.3 * bias
    actual = attend(*low, mask, scale=0.3, bias=bias)
    assert [implementation for implementation, _ in asked] == ["cudnn"]
    assert (asked[0][1]["mask"] is not None) == (name == "causal, segments")
    monkeypatch.setattr(dot_product, "platform", lambda: CPU)
    expected = attend(query, key, value, mask, scale=0.3, bias=bias)
    np.testing.assert_allclose(np.asarray(actual, np.float32), expected, atol=0.04)


@pytest.mark.parametrize("name", ["causal", "segments", "cross"])
def test_flash_attention_for_tpus_equals_the_einsum(monkeypatch, name):
    from jax.experimental.pallas import tpu

    segments = jnp.repeat(jnp.array([[1, 2, 0], [1, 1, 0]]), jnp.array([60, 40, 28]), axis=1)
    mask = {
        "causal": causal_mask(),
        "segments": causal_mask(segments),
        "cross": cross_mask(segments),
    }[name]
    query, key, value = (a[:, :1] for a in map(jnp.asarray, arrays(HEADS, 128, 64, 128)[:3]))

    def total(query, key, value):
        attended = attend(query, key, value, mask)
        return jnp.square(attended).sum(), attended

    def both():
        return jax.grad(total, (0, 1, 2), has_aux=True)(query, key, value)

    expected, expected_attended = both()
    monkeypatch.setattr(dot_product, "platform", lambda: TPU)
    with tpu.force_tpu_interpret_mode():
        actual, attended = both()
    np.testing.assert_allclose(attended, expected_attended, atol=1e-5)
    for ours, plain in zip(actual, expected, strict=True):
        np.testing.assert_allclose(ours, plain, atol=1e-4)

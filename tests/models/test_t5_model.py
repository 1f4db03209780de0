"""What T5 alone has; what every family promises is in the contracts."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.errors import UsageError
from jax_lm.huggingface.convert import leaves_by_path
from jax_lm.models.base import TokenIds
from jax_lm.models.layers import dot_product, feed_forward
from jax_lm.models.layers.dropout import DropoutKey
from jax_lm.models.registry import count_parameters
from jax_lm.models.t5 import PRESETS, T5, T5Config, stacks

SHAPE = {
    "vocab_size": 60,
    "num_layers": 2,
    "num_heads": 4,
    "head_dim": 16,
    "embed_dim": 48,
    "mlp_dim": 96,
    "num_buckets": 8,
    "max_distance": 6,
}
VERSION_1_1 = {"activation": "gelu_tanh", "gated": True, "tied": False, "scale_output": False}
PUBLISHED_SIZES = {
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "t5-large": 737_668_096,
    "t5-3b": 2_851_598_336,
    "t5-11b": 11_307_321_344,
    "t5-v1_1-small": 76_961_152,
    "t5-v1_1-base": 247_577_856,
    "t5-v1_1-large": 783_150_080,
    "t5-v1_1-xl": 2_849_757_184,
    "t5-v1_1-xxl": 11_135_332_352,
}


@pytest.fixture(scope="module")
def model() -> T5:
    config = T5Config(**SHAPE, **VERSION_1_1)
    return jax.jit(T5.init, static_argnums=1)(jax.random.key(0), config)


def test_presets_have_the_published_numbers_of_parameters():
    found = {
        name: count_parameters(dataclasses.replace(config, vocab_size=32_128))
        for name, config in PRESETS.items()
    }
    assert found == PUBLISHED_SIZES


def test_initial_deviations_follow_from_the_widths_as_published(model: T5):
    width, mlp, heads, head_dim = (
        SHAPE[n] for n in ("embed_dim", "mlp_dim", "num_heads", "head_dim")
    )
    inward = width**-0.5
    expected = {
        "token_embedding": 1.0,
        "output_weight": inward,
        "bucket_bias": inward,
        "query_weight": (width * head_dim) ** -0.5,
        "key_weight": inward,
        "value_weight": inward,
        "attention.output_weight": (heads * head_dim) ** -0.5,
        "gate_weight": inward,
        "up_weight": inward,
        "down_weight": mlp**-0.5,
        "scale": 0.0,
    }
    for path, leaf in leaves_by_path(model).items():
        wanted = expected[max((name for name in expected if path.endswith(name)), key=len)]
        values = np.asarray(leaf)[: SHAPE["vocab_size"]] if "layers" not in path else leaf
        found = float(np.std(values))
        # Of n draws the deviation is itself uncertain by 1 / sqrt(2 n).
        assert found == pytest.approx(wanted, rel=4 / math.sqrt(2 * values.size)), path


def test_the_input_may_be_padded_on_the_left_and_packed(model: T5):
    """Only distances count, so a document is read alike wherever it stands in its row."""
    draw = np.random.default_rng(0)
    rows, document = draw.integers(3, 60, (4, 9)), draw.integers(3, 60, 4)
    segments = np.zeros((4, 9), np.int32)
    for row, start in enumerate((0, 5, 3, 2)):
        rows[row, start : start + 4] = document
        segments[row, start : start + 4] = 2
    segments[3, :2], segments[3, 6:] = 1, 3
    encoded = jax.jit(T5.encode)(model, jnp.asarray(rows), jnp.asarray(segments))
    found = np.asarray(encoded)[segments == 2].reshape(4, 4, -1)
    for row in (1, 2, 3):
        np.testing.assert_allclose(found[row], found[0], atol=1e-5, err_msg=f"row {row}")
    assert not np.allclose(encoded[0, 1], encoded[1, 1], atol=1e-2)


def test_dropout_has_its_published_places(monkeypatch):
    """Embeddings, attention weights, inside the feed-forward layer, every branch, both ends."""
    seen = []

    def dropping(x, rate, key):
        if key is not None:
            seen.append(rate)
        return x

    for module in (stacks, dot_product, feed_forward):
        monkeypatch.setattr(module, "dropout", dropping)
    model = jax.eval_shape(lambda k: T5.init(k, T5Config(**SHAPE, dropout=0.1)), jax.random.key(0))
    ids = jnp.zeros((1, 5), jnp.int32)
    key = DropoutKey(jax.random.key(0), jnp.arange(1))
    jax.eval_shape(lambda m, key: m(ids, ids, key=key), model, key)
    in_blocks = (2 + 2) + (2 + 2 + 2)  # each block is traced once
    assert seen == [0.1] * (2 + 2 + in_blocks)
    jax.eval_shape(lambda m: m(ids, ids), model)
    assert len(seen) == 14


def test_outputs_begin_with_padding_unless_told_otherwise():
    config = T5Config()
    assert config.with_tokens(TokenIds(99, pad=3, eos=1)).decoder_start_id == 3
    assert config.with_tokens(TokenIds(99, eos=1)).decoder_start_id == 1
    assert config.with_tokens(TokenIds(99)).decoder_start_id == 0
    told = dataclasses.replace(config, decoder_start_id=7)
    assert told.with_tokens(TokenIds(99, pad=3, bos=7)).decoder_start_id == 7
    assert told.with_tokens(TokenIds(99)).decoder_start_id == 7
    with pytest.raises(
        UsageError,
        match=r"_id is 7, an ordinary .*, 3 \(padding\), as --model\.decoder-start-id$",
    ):
        told.with_tokens(TokenIds(99, pad=3))
    assert config.with_tokens(TokenIds(99)).vocab_size == 99


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_buckets": 3}, "num_buckets is 3, expected 4 or more"),
        ({"max_distance": 16}, "max_distance is 16, expected more than half of num_buckets, 16"),
        ({"num_decoder_layers": 0}, "num_decoder_layers is 0, expected 1 or more"),
    ],
)
def test_impossible_shapes_are_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        T5Config(**changes)


def test_attention_is_as_wide_as_the_heads_of_each_stack():
    config = T5Config(num_layers=2, num_decoder_layers=3, num_heads=4, head_dim=5)
    assert config.attention_widths == (2 * 4 * 5, 3 * 4 * 5)

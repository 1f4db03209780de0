"""Published shapes have the published numbers of parameters, and begin as published."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.errors import UsageError
from jax_lm.huggingface.convert import leaves_by_path
from jax_lm.models import gpt2, gpt_neox, gptj, opt
from jax_lm.models.gpt_neox import GPTNeoXConfig
from jax_lm.models.gptj import CUT_OFF, GPTJConfig
from jax_lm.models.opt import OPTConfig
from jax_lm.models.registry import count_parameters, init_model

PRESETS = {**gpt2.PRESETS, **gptj.PRESETS, **gpt_neox.PRESETS, **opt.PRESETS}
COUNTS = {
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "distilgpt2": 81_912_576,
    "dsgpt2-112m": 123_751_680,
    "dsgpt2-112m-half": 81_175_296,
    "dsgpt2-345m": 353_840_128,
    "pythia-14m": 14_067_712,
    "pythia-31m": 30_494_720,
    "pythia-70m": 70_426_624,
    "pythia-160m": 162_322_944,
    "pythia-410m": 405_334_016,
    "pythia-1b": 1_011_781_632,
    "pythia-1.4b": 1_414_647_808,
    "pythia-2.8b": 2_775_208_960,
    "pythia-6.9b": 6_857_302_016,
    "pythia-12b": 11_846_072_320,
    "gpt-neox-20b": 20_554_567_680,
    # Published as 6,053,381,344: the original counts biases and norms in each of its 8 shards (7
    # times 28 * 3 * 4096 + 2 * 4096 too many) and, as often, a bias of the embedding.
    "gpt-j-6b": 6_053_381_344 - 7 * (28 * 3 + 2) * 4096 - 8 * 4096,
    "opt-125m": 125_239_296,
    "opt-350m": 331_196_416,
    "opt-1.3b": 1_315_758_080,
    "opt-2.7b": 2_651_596_800,
    "opt-6.7b": 6_658_473_984,
    "opt-13b": 12_853_473_280,
    "opt-30b": 29_974_540_288,
    "opt-66b": 65_719_701_504,
}
SHAPE = {"vocab_size": 4000, "num_layers": 8, "num_heads": 4, "embed_dim": 64}
EXPECTED = {
    "gptj": (
        GPTJConfig(**SHAPE, rotary_dim=8),
        {
            "token_embedding": CUT_OFF / math.sqrt(4000),
            "blocks.attention.query_weight": CUT_OFF / 8,
            "blocks.attention.output_weight": CUT_OFF * 2 / 8 / 8,
            "blocks.feed_forward.up_weight": CUT_OFF / 8,
            "blocks.feed_forward.down_weight": CUT_OFF * 2 / 8 / 8,
            "output_weight": CUT_OFF / 8,
        },
    ),
    "gpt-neox": (
        GPTNeoXConfig(**SHAPE),
        {
            "token_embedding": math.sqrt(2 / 320),
            "blocks.attention.key_weight": math.sqrt(2 / 320),
            "blocks.attention.output_weight": 2 / 8 / 8,
            "blocks.feed_forward.up_weight": math.sqrt(2 / 320),
            "blocks.feed_forward.down_weight": 2 / 8 / 8,
            "output_weight": math.sqrt(2 / 320),
        },
    ),
    "opt": (
        OPTConfig(**SHAPE, token_dim=32),
        {
            "token_embedding": 0.006,
            "position_embedding": 0.006,
            "project_in_weight": 0.006,
            "project_out_weight": 0.006,
            "blocks.attention.value_weight": 0.006,
            "blocks.attention.output_weight": 0.006 / 4,
            "blocks.feed_forward.up_weight": 0.006,
            "blocks.feed_forward.down_weight": 0.006 / 4,
        },
    ),
}


@pytest.mark.parametrize("name", PRESETS)
def test_a_published_shape_has_the_published_number_of_parameters(name):
    assert count_parameters(PRESETS[name]) == COUNTS[name]


@pytest.mark.parametrize(("config", "expected"), EXPECTED.values(), ids=EXPECTED.keys())
def test_weights_begin_as_published(config, expected):
    leaves = leaves_by_path(init_model(jax.random.key(0), config))
    stds = {path: float(leaf[..., : config.vocab_size, :].std()) for path, leaf in matrices(leaves)}
    for path, std in expected.items():
        np.testing.assert_allclose(stds[path], std, rtol=0.05, err_msg=path)
    for path, leaf in leaves.items():
        if path.endswith("bias"):
            assert not jnp.any(leaf), path


@pytest.mark.parametrize("config", [EXPECTED["gptj"][0], EXPECTED["gpt-neox"][0]])
def test_one_standard_deviation_for_all_weights_can_be_asked_for(config):
    config = dataclasses.replace(config, initialization="normal", init_std=0.1)
    leaves = leaves_by_path(init_model(jax.random.key(0), config))
    for path, leaf in matrices(leaves):
        std = float(leaf[..., : config.vocab_size, :].std())
        np.testing.assert_allclose(std, 0.1, rtol=0.05, err_msg=path)


def matrices(leaves):
    """Weights and embeddings; a vocabulary's padding is the only axis longer than its ids."""
    return [(path, leaf) for path, leaf in leaves.items() if path.endswith(("weight", "embedding"))]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GPTJConfig(**SHAPE, rotary_dim=18), "rotary_dim is 18, expected an even number"),
        (lambda: GPTJConfig(**SHAPE, rotary_dim=7), "up to the width of a head, 16"),
        (
            lambda: GPTNeoXConfig(**SHAPE, rotary_fraction=0.2),
            "rotary_fraction 0.2 of a head of 16 channels is 3, expected an even number",
        ),
        (lambda: GPTNeoXConfig(**SHAPE, rotary_fraction=0.1), "is 1, expected"),
        (lambda: GPTNeoXConfig(**SHAPE, rotary_fraction=2.0), "is 32, expected"),
        (lambda: OPTConfig(**SHAPE, token_dim=0), "token_dim is 0, expected 1 or more"),
        (
            lambda: OPTConfig(**{**SHAPE, "num_heads": 5}),
            "embed_dim 64 is not a multiple of num_heads 5",
        ),
    ],
)
def test_shapes_that_cannot_be_built_are_refused(make, message):
    with pytest.raises(UsageError, match=message):
        make()

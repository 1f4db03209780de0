"""What stays in float32 when a model computes in bfloat16."""

import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.huggingface.convert import leaves_by_path
from jax_lm.models.forward import forward
from jax_lm.models.precision import in_dtype
from tests.contracts.family_cases import CONFIGS, VOCABULARY
from tests.contracts.test_families import batch, drawn

FLOAT32 = {
    "gpt2": {"norm.scale", "norm.bias"},
    "t5": {"norm.scale", "bucket_bias"},
    "roberta": {"norm.scale", "norm.bias", "output_bias"},
    "qwen3": {"norm.scale", "query_scale", "key_scale"},
}


@pytest.mark.parametrize("name", FLOAT32)
def test_norms_positions_and_logits_are_float32(name):
    model = in_dtype(drawn(CONFIGS[name]), jnp.bfloat16)
    kept = {path for path, leaf in leaves_by_path(model).items() if leaf.dtype == jnp.float32}
    assert all(any(path.endswith(end) for end in FLOAT32[name]) for path in kept)
    assert {end for end in FLOAT32[name] if any(path.endswith(end) for path in kept)} == FLOAT32[
        name
    ]
    assert not any("attention.output_bias" in path for path in kept)


@pytest.mark.parametrize("name", ["roberta", "t5"])
def test_bfloat16_is_near_float32(name):
    model = drawn(CONFIGS[name])
    exact = forward(model, batch())
    low = forward(in_dtype(model, jnp.bfloat16), batch())
    assert low.dtype == jnp.bfloat16
    assert in_dtype(model, jnp.bfloat16).unembedding.vocab_size == VOCABULARY
    difference = np.abs(np.asarray(low, np.float32) - np.asarray(exact)).mean()
    assert difference < 0.05 * np.abs(exact).mean()

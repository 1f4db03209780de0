"""Random models whose text is not constant."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.models.gpt2 import GPT2, GPT2Config


def random_model(seed: int, context_length: int, num_layers: int, vocab_size: int = 31) -> GPT2:
    config = GPT2Config(
        vocab_size=vocab_size,
        context_length=context_length,
        num_layers=num_layers,
        num_heads=2,
        embed_dim=16,
    )
    like = jax.eval_shape(lambda key: GPT2.init(key, config), jax.random.key(0))
    draw = np.random.default_rng(seed).normal

    def leaf(path: tuple[object, ...], like: jax.ShapeDtypeStruct) -> jax.Array:
        if "scale" in str(path[-1]):
            return jnp.ones(like.shape)
        # Strong biases would make the text constant.
        width = 0.0 if "bias" in str(path[-1]) else 0.5
        return jnp.asarray(draw(0.0, width, like.shape), jnp.float32)

    return jax.tree_util.tree_map_with_path(leaf, like)


@pytest.fixture(scope="session")
def model() -> GPT2:
    return random_model(1, context_length=256, num_layers=2)


@pytest.fixture(scope="session")
def short_model() -> GPT2:
    """With a context of 32 tokens, soon full."""
    return random_model(3, context_length=32, num_layers=1)

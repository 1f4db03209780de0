"""A tiny exported model, and its parts."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.huggingface.directory import write_directory
from jax_lm.models.gpt2 import GPT2, GPT2Config
from jax_lm.tokenizers.characters import train_characters
from jax_lm.tokenizers.pretrained import PretrainedTokenizer


@pytest.fixture(scope="session")
def tokenizer() -> PretrainedTokenizer:
    return train_characters(["abcdefgh æøå 없다\n"])


@pytest.fixture(scope="session")
def model(tokenizer: PretrainedTokenizer) -> GPT2:
    """Random everywhere but in the padding of the vocabulary, biases and scales too."""
    config = GPT2Config(
        vocab_size=tokenizer.vocab_size, context_length=8, num_layers=2, num_heads=2, embed_dim=8
    )
    like = jax.eval_shape(lambda key: GPT2.init(key, config), jax.random.key(0))
    draw = np.random.default_rng(0).normal
    random = jax.tree.map(lambda leaf: jnp.asarray(draw(size=leaf.shape), jnp.float32), like)
    padded = random.token_embedding.at[tokenizer.vocab_size :].set(0.0)
    return eqx.tree_at(lambda model: model.token_embedding, random, padded)


@pytest.fixture
def exported(model: GPT2, tokenizer: PretrainedTokenizer, tmp_path: Path) -> Path:
    write_directory(model, tokenizer, tmp_path / "model", card="# tiny\n")
    return tmp_path / "model"

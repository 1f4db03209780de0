"""A trained LLaMA that nobody here made: its logits, and its greedy text."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.generation.decode import generate
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.huggingface.directory import load_model
from jax_lm.models.llama import PRESETS, Llama
from tests.parity.llama2c_files import (
    BOS,
    decoded,
    encoded,
    read_tokenizer,
    write_directory,
)

STEPS = 200


@pytest.fixture
def stories(shared_data: Path) -> Path:
    return shared_data / "weights" / "stories260K"


@pytest.fixture
def model(stories: Path, tmp_path: Path) -> Llama:
    write_directory(stories / "stories260K.bin", tmp_path)
    return load_model(tmp_path)


def test_its_logits_are_the_reference_logits(stories: Path, model: Llama):
    with np.load(stories / "stories260K_reference_greedy.npz") as reference:
        tokens, expected = reference["tokens"], reference["logits"]
    ids = jnp.asarray(tokens[None])
    logits = jax.jit(lambda m: m.unembedding.logits(m(ids)))(model)[0]
    np.testing.assert_allclose(logits[:, : expected.shape[1]], expected, atol=1e-4, rtol=0)


def test_its_greedy_text_is_the_expected_one(stories: Path, model: Llama):
    pieces, scores = read_tokenizer(stories / "tok512.bin", 512)
    config = SamplingConfig(max_new_tokens=STEPS, temperature=0.0)
    (ids,) = generate(model, [[BOS]], config, eos_id=None)
    assert len(ids) == STEPS
    text = decoded(pieces, ids)
    assert text == (stories / "expected_greedy_200.txt").read_text()
    assert encoded(pieces, scores, text) == ids


def test_its_shape_is_the_preset_of_that_name(model: Llama):
    assert model.config == PRESETS["stories260k"]

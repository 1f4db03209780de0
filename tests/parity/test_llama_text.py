"""Greedy text of LLaMA and Mistral is that of transformers, also beyond the window."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.generation.decode import generate
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.huggingface.directory import load_model
from tests.parity.cases_llama import LLAMA3, llama, mistral, rotary
from tests.parity.parity_cases import VOCABULARY, Case, random_model

torch = pytest.importorskip("torch")

LONG = {"max_position_embeddings": 64}
NEW = 24
PROMPTS = [[5, 17, 3, 8, 100, 41, 7], [9, 30]]


@pytest.mark.parametrize(
    "make",
    [lambda: llama(**LONG, tie_word_embeddings=True), lambda: mistral(**LONG, sliding_window=5)],
    ids=["llama", "mistral, a window of 5"],
)
def test_greedy_text_is_transformers_greedy_text(make, tmp_path: Path):
    theirs = random_model(Case(make))
    theirs.save_pretrained(tmp_path, max_shard_size="20KB")
    assert (tmp_path / "model.safetensors.index.json").is_file()
    model = load_model(tmp_path)
    texts = generate(
        model, PROMPTS, SamplingConfig(max_new_tokens=NEW, temperature=0.0), eos_id=None
    )
    for prompt, text in zip(PROMPTS, texts, strict=True):
        expected = theirs.generate(
            torch.tensor([prompt]), max_new_tokens=NEW, do_sample=False, eos_token_id=None
        )
        assert [*prompt, *text] == expected[0].tolist()


def test_logits_are_equal_far_into_a_long_context(tmp_path: Path):
    """Where angles that are wrong in their last bits would be seen."""
    scaling = rotary("llama3", **{**LLAMA3, "original_max_position_embeddings": 8192})
    scaling["rope_parameters"]["rope_theta"] = 500_000.0
    shape = {"hidden_size": 32, "head_dim": 32, "max_position_embeddings": 131_072}
    theirs = random_model(Case(lambda: llama(**shape, **scaling)))
    theirs.save_pretrained(tmp_path)
    ids = np.random.default_rng(0).integers(0, VOCABULARY, (1, 16))
    positions = 100_000 + 97 * np.arange(16)[None]
    with torch.no_grad():
        expected = theirs(torch.tensor(ids), position_ids=torch.tensor(positions)).logits.numpy()
    run = jax.jit(lambda model: model.unembedding.logits(model(jnp.asarray(ids), positions=places)))
    places = jnp.asarray(positions, jnp.int32)
    actual = run(load_model(tmp_path))[..., :VOCABULARY]
    np.testing.assert_allclose(actual, expected, atol=1e-5, rtol=0)

"""What is GPT-2's alone: variants that transformers does not have, and greedy text."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.errors import JaxLMError
from jax_lm.generation.decode import generate
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.huggingface.convert import leaves_by_path
from jax_lm.huggingface.directory import load_model, write_directory
from jax_lm.models.gpt2 import GPT2, GPT2Config
from tests.parity.cases_gpt2 import CASES, gpt2
from tests.parity.parity_cases import Case, make_inputs, random_model, their_logits

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


def test_a_model_without_biases_exports_with_equal_logits(tokenizer, tmp_path: Path):
    config = GPT2Config(
        vocab_size=300,
        context_length=16,
        num_layers=2,
        num_heads=2,
        embed_dim=16,
        bias=False,
        activation="gelu",
        init_std=0.3,
    )
    model = GPT2.init(jax.random.key(0), config)
    write_directory(model, tokenizer, tmp_path / "out", card="# tiny\n")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    inputs = make_inputs(CASES["gpt2"], encoder_decoder=False)
    segments = jnp.asarray(inputs.real.astype(np.int32))
    hidden = model(jnp.asarray(inputs.input_ids.astype(np.int32)), segment_ids=segments)
    actual = np.asarray(model.unembedding.logits(hidden))[..., :300][inputs.scored]
    with torch.no_grad():
        expected = their_logits(theirs, inputs).numpy()[inputs.scored]
    np.testing.assert_allclose(actual, expected, atol=1e-5, rtol=0)
    again = load_model(tmp_path / "out")
    assert again.config == config
    assert again.final_norm.bias is None


def test_greedy_text_is_transformers_greedy_text(tmp_path: Path):
    theirs = random_model(CASES["gpt2"])
    theirs.save_pretrained(tmp_path)
    prompt = [5, 17, 3]
    config = SamplingConfig(max_new_tokens=12, temperature=0.0)
    (text,) = generate(load_model(tmp_path), [prompt], config, eos_id=None)
    expected = theirs.generate(
        torch.tensor([prompt]), max_new_tokens=12, do_sample=False, eos_token_id=None
    )
    assert [*prompt, *text] == expected[0].tolist()


def test_an_untied_output_matrix_is_refused(tmp_path: Path):
    theirs = random_model(Case(lambda: gpt2(tie_word_embeddings=False)))
    theirs.save_pretrained(tmp_path)
    with pytest.raises(JaxLMError, match="tie_word_embeddings is false; only true is implemented"):
        load_model(tmp_path)


def test_sharded_and_half_precision_files_are_read(tmp_path: Path):
    theirs = random_model(CASES["gpt2"])
    theirs.save_pretrained(tmp_path / "sharded", max_shard_size="20KB")
    assert not (tmp_path / "sharded" / "model.safetensors").exists()
    whole = leaves_by_path(load_model(tmp_path / "sharded"))
    theirs.to(torch.bfloat16).save_pretrained(tmp_path / "half")
    half = leaves_by_path(load_model(tmp_path / "half"))
    for path, leaf in whole.items():
        assert half[path].dtype == jnp.float32
        np.testing.assert_array_equal(half[path], leaf.astype(jnp.bfloat16).astype(jnp.float32))

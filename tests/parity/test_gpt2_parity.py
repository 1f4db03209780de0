"""GPT-2 against transformers: the same numbers from the same weights, in both directions."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.huggingface.convert import leaves_by_path
from jax_lm.huggingface.directory import load_directory, load_model, write_directory
from jax_lm.losses import token_losses, weighted_loss
from jax_lm.models.gpt2 import GPT2, GPT2Config

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

LENGTHS = (11, 7, 1)
SEQ = max(LENGTHS)
VARIANTS = {
    "published": {},
    "exact-gelu": {"activation_function": "gelu"},
    "narrow-mlp": {"n_inner": 20},
}


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS.keys())
def theirs(request):
    return make_theirs(**request.param)


def make_theirs(**changes):
    """A random model whose every weight matters: biases and scales are perturbed too."""
    shape = {"vocab_size": 280, "n_embd": 24, "n_layer": 3, "n_head": 4, "n_positions": 16}
    ids = {"bos_token_id": 0, "eos_token_id": 0}
    rates = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(**{**shape, **ids, **rates, **changes})
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


@pytest.fixture
def ours(theirs, tmp_path: Path) -> GPT2:
    theirs.save_pretrained(tmp_path / "theirs")
    return load_model(tmp_path / "theirs")


def ragged_batch() -> tuple[np.ndarray, np.ndarray]:
    """Right-padded ids and which of them are real."""
    ids = np.random.default_rng(0).integers(1, 280, (len(LENGTHS), SEQ)).astype(np.int32)
    real = np.arange(SEQ)[None, :] < np.array(LENGTHS)[:, None]
    return np.where(real, ids, 0).astype(np.int32), real


def our_logits(model: GPT2, ids: np.ndarray) -> np.ndarray:
    return np.asarray(jnp.einsum("bte,ve->btv", model(jnp.asarray(ids)), model.unembedding))


def their_outputs(model, ids: np.ndarray, real: np.ndarray, **options):
    with torch.no_grad():
        return model(torch.tensor(ids), attention_mask=torch.tensor(real.astype(int)), **options)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    logits = logits.astype(np.float64)
    logits = logits - logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def test_logits_of_ragged_batches_are_equal(theirs, ours):
    ids, real = ragged_batch()
    expected = their_outputs(theirs, ids, real).logits.numpy()[real]
    actual = our_logits(ours, ids)[real]
    np.testing.assert_allclose(actual, expected, atol=1e-5, rtol=0)
    p, q = log_softmax(expected), log_softmax(actual)
    assert (np.exp(p) * (p - q)).sum(axis=-1).max() < 1e-10


def test_every_layer_gives_equal_hidden_states(theirs, ours):
    ids, real = ragged_batch()
    expected = their_outputs(theirs, ids, real, output_hidden_states=True).hidden_states
    mask = jnp.tril(jnp.ones((1, SEQ, SEQ), bool))
    x = ours.token_embedding[ids] + ours.position_embedding[None, :SEQ]
    np.testing.assert_allclose(x[real], expected[0].numpy()[real], atol=1e-5, err_msg="embeddings")
    for layer in range(ours.config.num_layers):
        block = jax.tree.map(lambda leaf, layer=layer: leaf[layer], ours.blocks)
        x = block(x, mask)[0]
        last = layer == ours.config.num_layers - 1  # transformers shows it normalised
        shown = ours.final_norm(x) if last else x
        np.testing.assert_allclose(
            shown[real], expected[layer + 1].numpy()[real], atol=1e-5, err_msg=f"block {layer}"
        )


def test_gradients_of_the_loss_are_equal(theirs, ours, tmp_path: Path):
    ids, real = ragged_batch()
    inputs, targets, scored = jnp.asarray(ids[:, :-1]), ids[:, 1:], real[:, 1:]

    def loss(model: GPT2):
        losses, _ = token_losses(model(inputs), model.unembedding, jnp.asarray(targets))
        return weighted_loss(losses, jnp.asarray(scored, jnp.float32))

    value, gradients = jax.value_and_grad(loss)(ours)
    labels = torch.tensor(np.where(scored, targets, -100)).long()
    logits = theirs(torch.tensor(ids[:, :-1])).logits
    expected = torch.nn.functional.cross_entropy(logits.reshape(-1, 280), labels.reshape(-1))
    expected.backward()
    np.testing.assert_allclose(value, expected.item(), rtol=1e-5)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(parameter.grad)
    theirs.save_pretrained(tmp_path / "gradients")  # so the same table reads them
    wanted = leaves_by_path(load_model(tmp_path / "gradients"))
    for path, gradient in leaves_by_path(gradients).items():
        # A key bias moves every score alike, so its gradient is rounding around zero.
        scale = max(float(jnp.abs(wanted[path]).max()), 1e-3)
        np.testing.assert_allclose(gradient / scale, wanted[path] / scale, atol=1e-4, err_msg=path)


def test_export_loads_in_transformers_with_equal_logits_and_ids(ours, tokenizer, tmp_path: Path):
    write_directory(ours, tokenizer, tmp_path / "out", card="# tiny\n")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert model.dtype == torch.float32
    ids, real = ragged_batch()
    expected = their_outputs(model.eval(), ids, real).logits.numpy()[real]
    np.testing.assert_allclose(our_logits(ours, ids)[real], expected, atol=1e-5, rtol=0)
    read = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    text = "være: <|endoftext|> 없다 \u00e6\n"
    assert read.model_max_length == ours.config.context_length
    assert read("være 없다\n")["input_ids"] == tokenizer.encode_batch(["være 없다\n"]).ids.tolist()
    assert read.decode(tokenizer.encode_batch([text]).ids.tolist()) == text


def test_import_export_import_is_bitwise(ours, tokenizer, tmp_path: Path):
    write_directory(ours, tokenizer, tmp_path / "out", card="# tiny\n")
    again, _ = load_directory(tmp_path / "out")
    assert again.config == ours.config
    before, after = leaves_by_path(ours), leaves_by_path(again)
    assert before.keys() == after.keys()
    for path, leaf in before.items():
        assert np.asarray(leaf).tobytes() == np.asarray(after[path]).tobytes(), path


def test_a_model_without_biases_exports_with_equal_logits(tokenizer, tmp_path: Path):
    config = GPT2Config(
        vocab_size=280,
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
    ids, real = ragged_batch()
    expected = their_outputs(theirs, ids, real).logits.numpy()[real]
    np.testing.assert_allclose(our_logits(model, ids)[real], expected, atol=1e-5, rtol=0)
    again = load_model(tmp_path / "out")
    assert again.config == config
    assert again.final_norm.bias is None


def test_greedy_text_is_transformers_greedy_text(ours, theirs):
    from jax_lm.generation.decode import generate
    from jax_lm.generation.sampling import SamplingConfig

    prompt = [5, 17, 3]
    config = SamplingConfig(max_new_tokens=12, temperature=0.0)
    (text,) = generate(ours, [prompt], config, eos_id=None)
    expected = theirs.generate(
        torch.tensor([prompt]), max_new_tokens=12, do_sample=False, eos_token_id=None
    )
    assert [*prompt, *text] == expected[0].tolist()


def test_an_untied_output_matrix_is_refused(tmp_path: Path):
    from jax_lm.errors import JaxLMError

    make_theirs(tie_word_embeddings=False).save_pretrained(tmp_path)
    with pytest.raises(JaxLMError, match="tie_word_embeddings is false; only true is implemented"):
        load_model(tmp_path)


def test_sharded_and_half_precision_files_are_read(tmp_path: Path):
    theirs = make_theirs()
    theirs.save_pretrained(tmp_path / "sharded", max_shard_size="20KB")
    assert not (tmp_path / "sharded" / "model.safetensors").exists()
    whole = leaves_by_path(load_model(tmp_path / "sharded"))
    theirs.to(torch.bfloat16).save_pretrained(tmp_path / "half")
    half = leaves_by_path(load_model(tmp_path / "half"))
    for path, leaf in whole.items():
        assert half[path].dtype == jnp.float32
        np.testing.assert_array_equal(half[path], leaf.astype(jnp.bfloat16).astype(jnp.float32))

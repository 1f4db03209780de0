"""LLaMA's own files hold the numbers that transformers' files do."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

from jax_lm.errors import JaxLMError
from jax_lm.huggingface.directory import load_model
from jax_lm.huggingface.official_llama import LAYER_NAMES, NAMES, OfficialLlama, halves
from jax_lm.pretrained import find_model

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

PARAMS = {"dim": 16, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "norm_eps": 1e-5}


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> Path:
    """A tiny LLaMA as transformers saves it."""
    path = tmp_path_factory.mktemp("published")
    config = transformers.LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        rms_norm_eps=1e-5,
        pad_token_id=None,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(path)
    return path


def neighbours(weight: np.ndarray, num_heads: int) -> np.ndarray:
    """The published order of a projection's rows, from transformers'."""
    two = weight.reshape(num_heads, 2, -1, weight.shape[1])
    return two.swapaxes(1, 2).reshape(weight.shape)


def official(published: Path, directory: Path, *, pieces: int = 1, by_tokens: bool = False) -> Path:
    """The same weights as Meta would give them out, in pieces."""
    directory.mkdir()
    written: list[dict] = [{"rope.freqs": torch.ones(2)} for _ in range(pieces)]
    for name, values in load_file(published / "model.safetensors").items():
        layer, _, rest = name.removeprefix("model.layers.").partition(".")
        piece = NAMES.get(name) or LAYER_NAMES[rest]
        theirs = piece.theirs if name in NAMES else f"layers.{layer}.{piece.theirs}"
        heads = {"attention.wq.weight": 4, "attention.wk.weight": 2}.get(piece.theirs)
        values = values if heads is None else neighbours(values, heads)
        axis = 0 if by_tokens and "tok" in theirs else piece.axis
        cut = [values] * pieces if axis is None else np.split(values, pieces, axis)
        for one, part in zip(written, cut, strict=True):
            one[theirs] = torch.from_numpy(part.copy())
    for number, one in enumerate(written):
        torch.save(one, directory / f"consolidated.{number:02d}.pth")
    (directory / "params.json").write_text(json.dumps({**PARAMS, "max_seq_len": 64}))
    return directory


@pytest.mark.parametrize(
    ("pieces", "by_tokens"), [(1, False), (2, False), (2, True)], ids=["whole", "cut", "Llama 3"]
)
def test_official_files_give_the_same_model(published: Path, tmp_path: Path, pieces, by_tokens):
    directory = official(published, tmp_path / "meta", pieces=pieces, by_tokens=by_tokens)
    found = find_model(str(directory))
    assert found.layout == "llama"
    read, expected = found.read(), load_model(published)
    assert read.config == expected.config
    jax.tree.map(np.testing.assert_array_equal, read, expected)


def test_channels_of_a_head_change_places():
    rows = np.arange(8)[:, None]
    assert halves(rows, 2)[:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_context_lengths_and_scaling_are_the_published_ones(published: Path, tmp_path: Path):
    directory = official(published, tmp_path / "meta")

    def config(**params) -> dict:
        (directory / "params.json").write_text(json.dumps({**PARAMS, **params}))
        return OfficialLlama(directory).config_values

    assert config(norm_eps=1e-6)["max_position_embeddings"] == 2048
    assert config()["max_position_embeddings"] == 4096
    assert config(rope_theta=1_000_000.0)["max_position_embeddings"] == 16_384
    assert config(rope_theta=500_000.0)["max_position_embeddings"] == 8192
    scaled = config(rope_theta=500_000.0, use_scaled_rope=True)
    assert scaled["max_position_embeddings"] == 131_072
    assert scaled["rope_scaling"]["factor"] == 8.0
    assert config(n_kv_heads=None)["num_key_value_heads"] == 4


def test_damage_is_named(published: Path, tmp_path: Path):
    directory = official(published, tmp_path / "meta", pieces=2)
    second = directory / "consolidated.01.pth"
    tensors = torch.load(second, weights_only=True)
    del tensors["layers.1.attention.wo.weight"]
    torch.save(tensors, second)
    with pytest.raises(JaxLMError, match=r"layers\.1\.attention\.wo\.weight is not in every .* 1"):
        find_model(str(directory)).read()
    for path in directory.glob("*.pth"):
        path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(JaxLMError, match=r"consolidated\.00.*not a whole.*consolidated\.01.*not a"):
        find_model(str(directory)).read()
    for path in directory.glob("*.pth"):
        torch.save(tensors, path)
    (directory / "params.json").write_text('{"dim": 16}')
    with pytest.raises(JaxLMError, match=r"params\.json: n_layers must be a positive integer"):
        find_model(str(directory)).read()


def test_tensors_nobody_knows_are_named(published: Path, tmp_path: Path):
    directory = official(published, tmp_path / "meta")
    path = directory / "consolidated.00.pth"
    torch.save({**torch.load(path, weights_only=True), "vision.weight": torch.ones(2)}, path)
    with pytest.raises(JaxLMError, match=r"unexpected vision\.weight"):
        find_model(str(directory)).read()

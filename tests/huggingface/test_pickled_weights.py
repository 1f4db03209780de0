"""torch's own files: read as weights only, or not at all."""

import builtins
import json
from pathlib import Path

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

from jax_lm.errors import JaxLMError
from jax_lm.huggingface.directory import load_model
from jax_lm.models.gpt2 import GPT2

torch = pytest.importorskip("torch")


def pickle_weights(directory: Path, dtype=torch.float32, **options) -> dict:
    """Replace an export's safetensors by pytorch_model.bin."""
    tensors = {
        name: torch.from_numpy(x.copy()).to(dtype)
        for name, x in load_file(directory / "model.safetensors").items()
    }
    (directory / "model.safetensors").unlink()
    torch.save(tensors, directory / "pytorch_model.bin", **options)
    return tensors


def assert_same(a: GPT2, b: GPT2) -> None:
    jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.mark.parametrize("zipped", [True, False], ids=["current format", "format before 1.6"])
def test_pickled_weights_are_read(exported: Path, model: GPT2, zipped: bool):
    pickle_weights(exported, _use_new_zipfile_serialization=zipped)
    assert_same(load_model(exported), model)


def test_pickled_bfloat16_is_read(exported: Path, model: GPT2):
    pickle_weights(exported, torch.bfloat16)
    expected = jax.tree.map(lambda x: x.astype("bfloat16").astype("float32"), model)
    assert_same(load_model(exported), expected)


def test_pickled_shards_are_read_and_missing_ones_named(exported: Path, model: GPT2):
    tensors = pickle_weights(exported)
    (exported / "pytorch_model.bin").unlink()
    weight_map = {}
    for number, names in enumerate((sorted(tensors)[::2], sorted(tensors)[1::2])):
        file = f"pytorch_model-{number}.bin"
        torch.save({name: tensors[name] for name in names}, exported / file)
        weight_map.update(dict.fromkeys(names, file))
    index = exported / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    assert_same(load_model(exported), model)
    first, second = sorted(exported.glob("pytorch_model-*.bin"))
    first.unlink()
    second.write_bytes(second.read_bytes()[:300])
    with pytest.raises(
        JaxLMError,
        match=r"model: pytorch_model-0\.bin: not there: .*; pytorch_model-1\.bin: not a whole",
    ):
        load_model(exported)


class Malicious:
    def __reduce__(self):
        return Path.touch, (Path("touched"),)


def test_a_pickle_that_would_run_code_is_not_loaded(exported: Path, monkeypatch):
    monkeypatch.chdir(exported)
    (exported / "model.safetensors").unlink()
    torch.save({"transformer.wte.weight": Malicious()}, exported / "pytorch_model.bin")
    with pytest.raises(JaxLMError, match=r"pytorch_model\.bin: holds more than weights"):
        load_model(exported)
    assert not (exported / "touched").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "not a whole file of torch's"), ([1], "expected tensors by name, not list")],
)
def test_files_of_another_content_are_named(exported: Path, content, message):
    (exported / "model.safetensors").unlink()
    path = exported / "pytorch_model.bin"
    torch.save(content or {"a": torch.ones(100)}, path)
    if content is None:
        path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(JaxLMError, match=rf"pytorch_model\.bin: {message}"):
        load_model(exported)


def test_without_torch_the_extra_is_named(exported: Path, monkeypatch):
    pickle_weights(exported)
    real = builtins.__import__

    def without_torch(name, *args, **kwargs):
        if name == "torch":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_torch)
    with pytest.raises(JaxLMError, match=r"needs torch: pip install 'jax-lm\[torch\]'"):
        load_model(exported)

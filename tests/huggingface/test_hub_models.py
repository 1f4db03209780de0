"""Names on the hub, from a cache that was filled before; nothing is ever fetched."""

import shutil
from pathlib import Path

import huggingface_hub
import jax
import numpy as np
import pytest

from jax_lm.errors import JaxLMError
from jax_lm.pretrained import open_model

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(exported: Path, tmp_path: Path, monkeypatch) -> Path:
    """The hub's cache with one model in it, and no way to the hub."""
    repository = tmp_path / "hub" / "models--someone--tiny"
    shutil.copytree(exported, repository / "snapshots" / COMMIT)
    for name in ("main", "v1.0"):
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / name).write_text(COMMIT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    return repository


@pytest.mark.parametrize("name", ["someone/tiny", "someone/tiny@main", "someone/tiny@v1.0"])
def test_a_name_is_found_in_the_cache(cache: Path, model, tokenizer, name: str):
    opened = open_model(name)
    jax.tree.map(np.testing.assert_array_equal, opened.model, model)
    assert opened.tokenizer.fingerprint() == tokenizer.fingerprint()
    assert opened.path.is_relative_to(cache)


def test_what_is_not_in_the_cache_is_told_in_one_sentence(cache: Path):
    for name in ("someone/other", "someone/tiny@v2"):
        with pytest.raises(JaxLMError, match=f"^{name}: .*HF_HUB_OFFLINE is set; name a model"):
            open_model(name)


def test_a_cached_name_without_weights_says_so(cache: Path):
    (cache / "snapshots" / COMMIT / "model.safetensors").unlink()
    with pytest.raises(JaxLMError, match=r"no model\.safetensors, .*: there are no weights"):
        open_model("someone/tiny")


def test_only_what_is_needed_is_asked_for(exported: Path, monkeypatch):
    asked = []

    def download(name, *, revision, allow_patterns):
        asked.append((name, revision, set(allow_patterns)))
        return str(exported)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    open_model("someone/tiny@abc")
    ((name, revision, patterns),) = asked
    assert (name, revision) == ("someone/tiny", "abc")
    assert {"config.json", "model.safetensors", "tokenizer.json"} < patterns
    assert not any(pattern.endswith((".bin", ".py", "*")) for pattern in patterns)
    (exported / "model.safetensors").rename(exported / "pytorch_model.bin")
    with pytest.raises(JaxLMError, match="torch"):
        open_model("someone/tiny@abc")
    assert "pytorch_model.bin" in asked[-1][2]


@pytest.mark.parametrize("place", ["/nowhere/at/all", "a/b/c", "./x"])
def test_what_cannot_be_a_name_is_no_directory(place: str):
    with pytest.raises(JaxLMError, match=f"^{place}: no such directory: give a run directory"):
        open_model(place)

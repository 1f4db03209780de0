"""Which files of a stored model are brought here."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from jax_lm.checkpoints import list_steps
from jax_lm.checkpoints.layout import step_directory
from jax_lm.errors import JaxLMError
from jax_lm.preprocessing.remote_features import local_features
from jax_lm.pretrained.remote_models import local_model
from tests.remote.test_copies_of_runs import write_checkpoint

RUN = "memory://models/run"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("JAX_LM_CACHE", str(tmp_path / "cache"))
    filesystem = fsspec.filesystem("memory")
    yield filesystem
    filesystem.store.clear()
    filesystem.pseudo_dirs[:] = [""]


@pytest.fixture
def run(store: Any, tmp_path: Path) -> Any:
    """A run with two checkpoints, of which the older one is the best."""
    for step in (10, 20):
        write_checkpoint(tmp_path / "run", step)
        directory = step_directory(tmp_path / "run" / "checkpoints", step)
        store.put(str(directory), f"/models/run/checkpoints/{directory.name}", recursive=True)
    store.pipe("/models/run/checkpoints/best.json", json.dumps({"step": 10}).encode())
    return store


def test_the_best_checkpoint_stands_for_a_run(run: Any) -> None:
    assert list_steps(local_model(RUN, None, print) / "checkpoints") == [10]
    run.pipe("/models/run/checkpoints/best.json", b"[]")
    with pytest.raises(JaxLMError, match=r"run/checkpoints/best.json: expected step, metric and"):
        local_model(RUN, None, print)


def test_a_damaged_checkpoint_that_is_named_is_refused(run: Any) -> None:
    run.pipe("/models/run/checkpoints/step-00000020/model/array", b"flipped")
    with pytest.raises(JaxLMError, match=f"{RUN}.*step-00000020: damaged checkpoint: model/array"):
        local_model(RUN, 20, print)


def test_pickled_weights_stay_where_safe_ones_are(store: Any) -> None:
    for name in ("config.json", "model.safetensors", "pytorch_model.bin", "tf_model.h5"):
        store.pipe(f"/models/plain/{name}", name.encode())
    found = local_model("memory://models/plain", None, print)
    assert {path.name for path in found.iterdir()} == {"config.json", "model.safetensors"}
    store.rm("/models/plain/model.safetensors")
    found = local_model("memory://models/plain", None, print)
    assert {path.name for path in found.iterdir()} == {"config.json", "pytorch_model.bin"}


def test_a_cache_that_cannot_be_written_is_named(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("JAX_LM_CACHE", str(tmp_path / "file"))
    with pytest.raises(JaxLMError, match=r"file/models/\w+: cannot be written: Not a directory"):
        local_model(RUN, None, print)


def test_a_manifest_that_was_changed_is_refused(store: Any) -> None:
    store.pipe("/models/features/_train.manifest.json", b"{}")
    with pytest.raises(JaxLMError, match="features/train: its manifest is damaged"):
        local_features("memory://models/features/train")
    assert local_features("memory://models") == "memory://models"

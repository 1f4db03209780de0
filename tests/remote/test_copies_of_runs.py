"""Run directories, models and features on a store in this process's memory."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from jax_lm.checkpoints import list_steps, step_directory
from jax_lm.checkpoints.verifying import write_checksums
from jax_lm.errors import JaxLMError
from jax_lm.loading.rows import open_rows
from jax_lm.preprocessing.remote_features import local_features
from jax_lm.pretrained.remote_models import local_model
from jax_lm.remote.directory import is_object_store
from jax_lm.training.config import CheckpointConfig
from jax_lm.training.remote import kept_copy
from jax_lm.training.run_directory import open_run_directory
from tests.conftest import TinyFeatures
from tests.remote.buckets import put_features

RUN = "memory://bucket/runs/one"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("JAX_LM_CACHE", str(tmp_path / "cache"))
    filesystem = fsspec.filesystem("memory")
    yield filesystem
    filesystem.store.clear()
    filesystem.pseudo_dirs[:] = [""]


def write_checkpoint(run: Path, step: int, content: str = "weights") -> None:
    directory = step_directory(run / "checkpoints", step)
    (directory / "model").mkdir(parents=True)
    (directory / "model" / "array").write_text(f"{content} {step}")
    (directory / "progress.json").write_text("{}")
    write_checksums(directory)


def stored_steps(store: Any) -> list[int]:
    found = store.glob("/bucket/runs/one/checkpoints/step-*/checksums.json")
    return sorted(int(name.split("/")[-2][5:]) for name in found)


def run_here(
    act: Callable[[Path, Callable[[], None]], None],
    *,
    resume: str = "auto",
    retention: CheckpointConfig | None = None,
) -> list[str]:
    """What a run that does ``act`` says."""
    said: list[str] = []
    run = open_run_directory(RUN)
    settings = CheckpointConfig(keep=2) if retention is None else retention
    run.path.mkdir(parents=True, exist_ok=True)
    with kept_copy(run.path, run.url, settings, resume=resume, say=said.append) as changed:
        act(run.path, changed)
    return said


def trained(*steps: int, content: str = "weights") -> Callable[[Path, Callable[[], None]], None]:
    def act(run: Path, changed: Callable[[], None]) -> None:
        for step in steps:
            write_checkpoint(run, step, content)
            with (run / "metrics.jsonl").open("a") as metrics:
                metrics.write(json.dumps({"step": step}) + "\n")
            changed()

    return act


def another_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    monkeypatch.setenv("JAX_LM_CACHE", str(tmp_path / name))


def test_what_is_written_is_there_and_comes_back_elsewhere(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = run_here(trained(10, 20, 30))
    assert stored_steps(store) == [20, 30]
    assert said == [f"uploaded  {RUN}"]
    another_machine(monkeypatch, tmp_path, "elsewhere")
    seen: list[Any] = []

    def look(run: Path, changed: Callable[[], None]) -> None:
        seen.extend([list_steps(run / "checkpoints"), (run / "metrics.jsonl").read_text()])

    said = run_here(look)
    assert seen == [[30], '{"step": 10}\n{"step": 20}\n{"step": 30}\n']
    assert said[0].startswith(f"bringing  {RUN}/checkpoints/step-00000030 to this machine")
    assert stored_steps(store) == [20, 30]


def test_a_damaged_newest_is_named_and_the_one_before_taken(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_here(trained(10, 20))
    store.pipe("/bucket/runs/one/checkpoints/step-00000020/model/array", b"flipped")
    store.pipe("/bucket/runs/one/checkpoints/step-00000030/model/array", b"never completed")
    another_machine(monkeypatch, tmp_path, "elsewhere")
    said = run_here(lambda run, changed: changed())
    assert f"refused {RUN}/checkpoints/step-00000020: damaged checkpoint: model/array" in said
    assert stored_steps(store) == [10]
    assert not store.exists("/bucket/runs/one/checkpoints/step-00000030")
    store.pipe("/bucket/runs/one/checkpoints/step-00000010/model/array", b"flipped")
    another_machine(monkeypatch, tmp_path, "a third")
    with pytest.raises(JaxLMError, match="none of the 1 checkpoints verifies"):
        run_here(trained())


def test_a_run_that_is_there_is_not_begun_anew(store: Any) -> None:
    run_here(trained(10))
    with pytest.raises(JaxLMError, match=f"{RUN} already holds a run: continue it with --resume"):
        run_here(trained(), resume="never")
    store.rm("/bucket/runs", recursive=True)
    run_here(lambda run, _: [pytest.fail(str(path)) for path in run.glob("checkpoints/*")])


def test_an_upload_that_fails_is_told_and_tried_again(store: Any) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("Forbidden: no such permission")

    said: list[str] = []
    run = open_run_directory(RUN)
    run.path.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(store), "put", refuse)
        with (
            pytest.raises(JaxLMError, match="the run failed later"),
            kept_copy(
                run.path, run.url, CheckpointConfig(), resume="auto", say=said.append
            ) as changed,
        ):
            act_failing(run.path, changed)
    assert said[0].startswith("not uploaded, tried again with the next checkpoint or evaluation: ")
    assert "cannot be written: OSError: Forbidden: no such permission: log in with" in said[0]
    assert stored_steps(store) == []
    said = run_here(trained(20))
    assert said[0] == f"step 10 was never uploaded to {RUN}: it is taken from {run.path}"
    assert stored_steps(store) == [10, 20]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(store), "put", refuse)
        with pytest.raises(JaxLMError, match=r"the run is whole in .* with --resume auto sends it"):
            run_here(trained(30))


def act_failing(run: Path, changed: Callable[[], None]) -> None:
    trained(10)(run, changed)
    raise JaxLMError("the run failed later")


def test_the_best_checkpoint_is_kept_there_and_brought_too(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(run: Path, changed: Callable[[], None]) -> None:
        trained(10, 20, 30)(run, changed)
        best = {"step": 10, "metric": "val/loss", "value": 1.0}
        (run / "checkpoints" / "best.json").write_text(json.dumps(best))

    run_here(act, retention=CheckpointConfig(keep=1, best="val/loss"))
    assert stored_steps(store) == [10, 30]
    another_machine(monkeypatch, tmp_path, "elsewhere")
    seen: list[int] = []
    run_here(lambda run, _: seen.extend(list_steps(run / "checkpoints")))
    assert seen == [10, 30]


def test_the_final_model_is_replaced_whole(store: Any) -> None:
    def export(*names: str) -> Callable[[Path, Callable[[], None]], None]:
        def act(run: Path, changed: Callable[[], None]) -> None:
            (run / "final").mkdir(exist_ok=True)
            for path in (run / "final").iterdir():
                path.unlink()
            for name in names:
                (run / "final" / name).write_text(" ".join(names))

        return act

    run_here(export("config.json", "model.safetensors"))
    run_here(export("config.json", "model-1.safetensors"))
    found = {name.split("/")[-1] for name in store.find("/bucket/runs/one/final")}
    assert found == {"config.json", "model-1.safetensors"}
    assert local_model(f"{RUN}/final", None, print).name == "final"


def test_models_are_found_by_url(store: Any) -> None:
    run_here(trained(10, 20))
    said: list[str] = []
    newest = local_model(RUN, None, said.append)
    assert list_steps(newest / "checkpoints") == [20]
    assert local_model(RUN, None, said.append) == newest
    assert said[1].startswith(f"using the copy of {RUN}")
    assert list_steps(local_model(RUN, 10, print) / "checkpoints") == [10]
    with pytest.raises(JaxLMError, match=r"one@15: no such checkpoint \(steps with one: 10, 20\)"):
        local_model(RUN, 15, print)
    with pytest.raises(JaxLMError, match="no such directory, or there is nothing in it"):
        local_model("memory://bucket/nothing", None, print)
    with pytest.raises(JaxLMError, match="one/final: no such directory, or there is nothing in it"):
        local_model(f"{RUN}/final", None, print)  # and its neighbours are not brought
    for step in (10, 20):
        store.pipe(f"/bucket/runs/one/checkpoints/step-000000{step}/model/array", b"?")
    with pytest.raises(JaxLMError, match="none of the 2 checkpoints verifies"):
        local_model(RUN, None, print)


def test_features_are_brought_once_and_checked(store: Any, tiny_features: TinyFeatures) -> None:
    put_features(store, tiny_features.train, "/bucket/features")
    url, said = "memory://bucket/features/train", list[str]()
    rows = open_rows(url, said.append)
    assert rows.fingerprint == open_rows(tiny_features.train, said.append).fingerprint
    assert said[1].startswith(f"copied    {url} to ")
    assert local_features(url, said.append) == local_features(url, said.append)
    assert said[-1].startswith(f"using the copy of {url}")
    manifest = "/bucket/features/_train.manifest.json"
    store.pipe(manifest, store.cat(manifest).replace(b'"rows": 7', b'"rows": 8'))
    with pytest.raises(JaxLMError, match=f"{url}: its manifest is damaged"):
        open_rows(url, said.append)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda data: data[:-9] + b"X" + data[-8:], "the sha256 of .*parquet is not"),
        (None, "parquet missing"),
    ],
)
def test_damaged_features_are_named(
    store: Any, tiny_features: TinyFeatures, change: Any, problem: str
) -> None:
    put_features(store, tiny_features.train, "/bucket/features")
    file = store.glob("/bucket/features/*.parquet")[0]
    if change is None:
        store.rm(file)
    else:
        store.pipe(file, change(store.cat(file)))
    with pytest.raises(JaxLMError, match=f"train are damaged: .*{problem}"):
        open_rows("memory://bucket/features/train", lambda line: None)


def test_what_is_a_store() -> None:
    assert is_object_store("gcs://bucket/run") and is_object_store("s3://bucket")
    assert not any(map(is_object_store, ("runs/one", "https://host/x", "mongodb://h/d", "gs://")))
    with pytest.raises(JaxLMError, match="--run-dir https://host/run: a run cannot be written"):
        open_run_directory("https://user:secret@host/run")
    assert local_features("memory://bucket/*.jsonl") == "memory://bucket/*.jsonl"


def test_a_later_step_that_appears_meanwhile_is_left_alone(store: Any) -> None:
    def act(run: Path, changed: Callable[[], None]) -> None:
        store.pipe("/bucket/runs/one/checkpoints/step-00000050/checksums.json", b"{}")
        trained(10)(run, changed)

    run_here(act)
    assert stored_steps(store) == [10, 50]

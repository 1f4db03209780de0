import logging
import os
import sys
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

from jax_lm.checkpoints import (
    Progress,
    list_steps,
    newest_valid,
    read_config,
    read_progress,
    restore_arrays,
    save_checkpoint,
    saving,
    verify_checkpoint,
    verifying,
)
from jax_lm.checkpoints.arrays import out_of_reach, silence_orbax
from jax_lm.checkpoints.restoring import restore_overlaid
from jax_lm.checkpoints.saving import save_model
from jax_lm.checkpoints.verifying import DamagedCheckpoint
from jax_lm.errors import JaxLMError
from jax_lm.models.gpt2 import GPT2, GPT2Config

CONFIG = GPT2Config(vocab_size=7, context_length=4, num_layers=2, num_heads=1, embed_dim=4)


@pytest.fixture
def model() -> GPT2:
    return GPT2.init(jax.random.key(0), CONFIG)


def save(folder: Path, model: GPT2, step: int, keep: int = 3) -> Path:
    return save_checkpoint(
        folder,
        model=model,
        optimizer={"step": jnp.int32(step)},
        progress=Progress(step=step, position=8 * step, tokens=99 * step, data="abc"),
        config={"seed": 1},
        keep=keep,
    )


def test_round_trip_is_bitwise(tmp_path: Path, model: GPT2) -> None:
    directory = save(tmp_path, model, 3)
    assert directory.name == "step-00000003"
    restored = restore_arrays(directory / "model", jax.eval_shape(lambda: model))
    assert restored.config == CONFIG
    for before, after in zip(jax.tree.leaves(model), jax.tree.leaves(restored), strict=True):
        np.testing.assert_array_equal(before, after)
    assert read_progress(directory) == Progress(step=3, position=24, tokens=297, data="abc")
    assert read_config(directory) == {"seed": 1}


def test_only_arrays_and_json_are_stored(tmp_path: Path, model: GPT2) -> None:
    files = [path for path in save(tmp_path, model, 1).rglob("*") if path.is_file()]
    assert not [path for path in files if path.read_bytes()[:1] == b"\x80"]  # a pickle's first byte
    own = {path.name for path in files if path.parent.name == "step-00000001"}
    assert own == {"checksums.json", "config.json", "progress.json"}


def test_the_last_ones_are_kept(tmp_path: Path, model: GPT2) -> None:
    for step in (1, 2, 10, 11):
        save(tmp_path, model, step, keep=2)
    assert list_steps(tmp_path) == [10, 11]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000010", "step-00000011"]


def flip_a_byte(directory: Path) -> str:
    largest = max((p for p in directory.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 1
    largest.write_bytes(data)
    return largest.relative_to(directory).as_posix()


def test_a_flipped_byte_is_named_and_the_one_before_taken(tmp_path: Path, model: GPT2) -> None:
    first, second = save(tmp_path, model, 1), save(tmp_path, model, 2)
    name = flip_a_byte(second)
    with pytest.raises(JaxLMError, match="damaged checkpoint: ") as error:
        verify_checkpoint(second)
    assert name in str(error.value)
    said: list[str] = []
    assert newest_valid(tmp_path, said.append) == first
    assert name in said[0]


def test_never_starts_over_silently(tmp_path: Path, model: GPT2) -> None:
    flip_a_byte(save(tmp_path, model, 1))
    with pytest.raises(JaxLMError, match="none of the 1 checkpoints verifies"):
        newest_valid(tmp_path, lambda line: None)
    assert newest_valid(tmp_path / "elsewhere", print) is None


def test_missing_and_added_files_are_named(tmp_path: Path, model: GPT2) -> None:
    directory = save(tmp_path, model, 1)
    (directory / "progress.json").unlink()
    (directory / "extra").touch()
    with pytest.raises(JaxLMError, match=r"extra, progress\.json"):
        verify_checkpoint(directory)
    (directory / "checksums.json").unlink()
    with pytest.raises(JaxLMError, match=r"no readable checksums\.json"):
        verify_checkpoint(directory)


@pytest.mark.parametrize("number", [5, 13, 116])  # EIO, EACCES, ESTALE
def test_what_cannot_be_read_is_not_called_damaged(
    number: int, tmp_path: Path, model: GPT2, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, model, 1)
    directory = save(tmp_path, model, 2)

    def refused(path: Path) -> str:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(verifying, "file_sha256", refused)
    with pytest.raises(JaxLMError, match=f"cannot be checked .*{os.strerror(number)}") as error:
        newest_valid(tmp_path, lambda line: pytest.fail(line))
    assert not isinstance(error.value, DamagedCheckpoint)
    assert str(directory) in str(error.value)


def test_files_of_an_unreadable_folder_are_not_called_missing(
    tmp_path: Path, model: GPT2, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, scan = save(tmp_path, model, 1), os.scandir

    def refused(path: Any) -> Any:
        if Path(path).name == "model":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(JaxLMError, match=r"cannot be checked .*Permission denied: .*model"):
        verify_checkpoint(directory)


@pytest.mark.parametrize("text", ["[]", "3", "{"])
def test_checksums_of_another_form_are_damage(text: str, tmp_path: Path, model: GPT2) -> None:
    directory = save(tmp_path, model, 1)
    (directory / "checksums.json").write_text(text)
    with pytest.raises(DamagedCheckpoint):
        verify_checkpoint(directory)


def test_files_are_hashed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sha256, four = verifying.file_sha256, Barrier(4)

    def together(path: Path) -> str:
        four.wait(timeout=20)
        return sha256(path)

    for name in ("one", "two", "three", "four"):
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(verifying, "file_sha256", together)
    verifying.write_checksums(tmp_path)
    (tmp_path / "two").write_text("too")
    with pytest.raises(DamagedCheckpoint, match=r"damaged checkpoint: two$"):
        verify_checkpoint(tmp_path)


def test_one_process_removes_the_older_ones(
    tmp_path: Path, model: GPT2, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, model, 1)
    newest = save(tmp_path, model, 2)
    monkeypatch.setattr(saving, "begin_checkpoint", lambda *_: None)
    monkeypatch.setattr(saving, "complete_checkpoint", lambda *_: newest)
    monkeypatch.setattr(jax, "process_index", lambda: 1)
    save(tmp_path, model, 2, keep=1)
    assert list_steps(tmp_path) == [1, 2]
    monkeypatch.setattr(jax, "process_index", lambda: 0)
    save(tmp_path, model, 2, keep=1)
    assert list_steps(tmp_path) == [2]


def test_a_failed_save_leaves_the_older_one_whole(
    tmp_path: Path, model: GPT2, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = save(tmp_path, model, 1)

    def full(path: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(OSError, match="No space left"):
        save(tmp_path, model, 2)
    monkeypatch.undo()
    verify_checkpoint(older)
    assert [path.name for path in tmp_path.iterdir()] == [older.name]


def test_a_save_that_fails_half_begun_leaves_nothing(
    tmp_path: Path, model: GPT2, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights are on their way when the optimizer's state cannot be written."""
    older, begin = save(tmp_path, model, 1), ocp.StandardCheckpointer.save

    def full(checkpointer: Any, directory: Path, *rest: Any) -> None:
        if directory.name == "optimizer":
            raise OSError(28, "No space left on device")
        begin(checkpointer, directory, *rest)

    monkeypatch.setattr(ocp.StandardCheckpointer, "save", full)
    with pytest.raises(OSError, match="No space left"):
        save(tmp_path, model, 2)
    verify_checkpoint(older)
    assert [path.name for path in tmp_path.iterdir()] == [older.name]


def test_late_writes_are_no_news(caplog: pytest.LogCaptureFixture) -> None:
    """Of writes that fail after the one that was told; what other tasks do is still logged."""
    silence_orbax()
    logger = logging.getLogger("asyncio")
    for future in ("OCDBT: no space", "coro=<Store.write() at orbax/checkpoint/metadata.py>"):
        logger.error("Task exception was never retrieved\nfuture: <%s>", future)
    assert caplog.text == ""
    try:
        exec(compile("raise OSError(28, 'No space left')", "orbax/checkpoint/_src/path.py", "exec"))
    except OSError as error:
        logger.error("Future exception was never retrieved", exc_info=error)
    assert caplog.text == ""
    logger.error("Task exception was never retrieved\nfuture: <somebody else's>")
    logger.error("a loop is slow")
    assert "somebody else's" in caplog.text and "a loop is slow" in caplog.text


def test_late_ends_of_writes_are_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    silence_orbax()
    hook = sys.unraisablehook
    silence_orbax()
    assert sys.unraisablehook is hook
    late = SimpleNamespace(exc_value=RuntimeError("Event loop is closed"))
    other = SimpleNamespace(exc_value=RuntimeError("another"))
    for unraisable in (late, other):
        hook(unraisable)  # type: ignore[arg-type]
    assert told == [other]


def test_arrays_of_numpy_are_copied() -> None:
    array = np.zeros(3)
    copied = out_of_reach({"array": array})["array"]
    array += 1
    np.testing.assert_array_equal(copied, np.zeros(3))


def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, model: GPT2) -> None:
    directory = save(tmp_path, model, 1)
    wider = GPT2Config(vocab_size=7, context_length=4, num_layers=2, num_heads=1, embed_dim=8)
    like = jax.eval_shape(lambda key: GPT2.init(key, wider), jax.random.key(0))
    with pytest.raises(
        JaxLMError,
        match=r"does not fit the configured model: .*token_embedding \(float32\[128, 4\]",
    ):
        restore_arrays(directory / "model", like)


def test_each_array_comes_from_the_first_that_has_it(tmp_path: Path) -> None:
    whole = {"a": jnp.zeros(3), "b": jnp.zeros(2)}
    for name in ("whole", "part"):
        (tmp_path / name).mkdir()
    save_model(tmp_path / "whole", model=whole, config={})
    save_model(tmp_path / "part", model={"b": jnp.ones(2)}, config={})
    places = (tmp_path / "none", tmp_path / "part" / "model", tmp_path / "whole" / "model")
    read = restore_overlaid(places, whole)
    np.testing.assert_array_equal(read["a"], np.zeros(3))
    np.testing.assert_array_equal(read["b"], np.ones(2))
    with pytest.raises(JaxLMError, match="does not fit"):
        restore_overlaid(places, whole | {"b": jnp.zeros(4)})

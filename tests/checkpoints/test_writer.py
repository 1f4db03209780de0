import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.checkpoints import (
    CheckpointWriter,
    Progress,
    list_steps,
    read_best,
    restore_arrays,
    save_checkpoint,
    verify_checkpoint,
)
from jax_lm.checkpoints import writer as writer_module
from jax_lm.checkpoints.layout import read_evaluation
from jax_lm.checkpoints.retention import find_best
from jax_lm.checkpoints.writer import reason_of
from jax_lm.errors import JaxLMError, UsageError
from jax_lm.training.config import CheckpointConfig


def at(step: int) -> Progress:
    return Progress(step=step, position=8 * step, tokens=99 * step, data="abc", batch_size=8)


def state_of(value: float) -> dict[str, Any]:
    weights = {"weight": jnp.full((4, 3), value)}
    return {"model": weights, "optimizer": {"step": jnp.int32(value)}, "average": None}


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def open_writer(tmp_path: Path, said: list[str]) -> Callable[..., CheckpointWriter]:
    def make(resume_step: int | None = None, **retention: Any) -> CheckpointWriter:
        return CheckpointWriter(
            tmp_path, CheckpointConfig(**retention), resume_step=resume_step, say=said.append
        )

    return make


def save_all(writer: CheckpointWriter, values: dict[int, float], metric: str = "val/loss") -> None:
    for step, value in values.items():
        assert writer.save(state_of(step), at(step), {}, {metric: value})
    writer.wait()


def test_what_is_given_away_at_once_is_saved_as_it_was(
    tmp_path: Path, open_writer: Callable[..., CheckpointWriter]
) -> None:
    step = jax.jit(lambda state: jax.tree.map(lambda leaf: leaf + 1, state), donate_argnums=0)
    state = {"model": {"weight": jnp.zeros((512, 512))}, "optimizer": {"step": jnp.int32(0)}}
    before = np.asarray(state["model"]["weight"]).copy()
    with open_writer() as writer:
        writer.save(state, at(1), {"seed": 1})
        for _ in range(3):
            state = step(state)
        writer.wait()
    (directory,) = tmp_path.iterdir()
    verify_checkpoint(directory)
    like = jax.eval_shape(lambda: {"weight": jnp.zeros((512, 512))})
    np.testing.assert_array_equal(restore_arrays(directory / "model", like)["weight"], before)


def test_training_goes_on_while_it_is_written_and_a_second_save_waits(
    tmp_path: Path,
    open_writer: Callable[..., CheckpointWriter],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    complete, may_end = writer_module.complete_checkpoint, threading.Event()
    under_way: list[int] = []

    def held(begun: Any, *rest: Any) -> Path:
        under_way.append(begun.progress.step)
        assert may_end.wait(60)
        return complete(begun, *rest)

    monkeypatch.setattr(writer_module, "complete_checkpoint", held)
    writer = open_writer(keep=5)
    assert writer.save(state_of(1), at(1), {})
    assert list_steps(tmp_path) == []  # and yet we are here
    threading.Timer(0.2, may_end.set).start()
    assert writer.save(state_of(2), at(2), {})
    assert 1 in list_steps(tmp_path)
    assert writer.newest() == tmp_path / "step-00000002"
    assert under_way == [1, 2]


def test_a_save_that_fails_is_told_and_the_next_one_works(
    tmp_path: Path,
    said: list[str],
    open_writer: Callable[..., CheckpointWriter],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer = open_writer()
    writer.save(state_of(1), at(1), {})
    writer.wait()

    def full(path: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    assert writer.save(state_of(2), at(2), {})
    with pytest.raises(JaxLMError, match="step 2 could not be saved: No space left on device"):
        writer.wait()
    assert said == ["step 2 could not be saved, training goes on: No space left on device"]
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]
    verify_checkpoint(tmp_path / "step-00000001")
    writer.save(state_of(2), at(2), {})
    writer.wait()
    assert list_steps(tmp_path) == [1, 2]


def test_a_save_that_cannot_begin_is_told_too(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said: list[str] = []
    writer = CheckpointWriter(tmp_path / "file", CheckpointConfig(), say=said.append)
    assert not writer.save(state_of(1), at(1), {})
    assert said[0].startswith("step 1 could not be saved, training goes on: ")
    with pytest.raises(JaxLMError, match="file: step 1 could not be saved"):
        writer.wait()
    assert writer.newest() is None


def test_the_newest_every_third_and_the_best_are_kept(
    tmp_path: Path, open_writer: Callable[..., CheckpointWriter]
) -> None:
    writer = open_writer(keep=1, keep_every=3, best="val/loss")
    save_all(writer, {1: 5.0, 2: 4.0, 3: 4.5, 4: 4.1, 5: float("nan"), 6: 4.0, 7: 4.2})
    assert list_steps(tmp_path) == [2, 3, 6, 7]
    best = json.loads((tmp_path / "best.json").read_text())
    assert best == {"step": 2, "metric": "val/loss", "value": 4.0}
    assert read_evaluation(tmp_path / "step-00000002") == {"val/loss": 4.0}


def test_accuracies_count_upwards(
    tmp_path: Path, open_writer: Callable[..., CheckpointWriter]
) -> None:
    writer = open_writer(keep=1, best="val/own/accuracy")
    save_all(writer, {1: 0.25, 2: 0.75, 3: 0.5}, "val/own/accuracy")
    assert list_steps(tmp_path) == [2, 3]
    assert writer.improves({"val/own/accuracy": 0.8})
    assert not writer.improves({"val/own/accuracy": 0.75})
    assert not writer.improves({})
    assert not open_writer(resume_step=3).improves({"val/loss": 0.0})


def test_a_metric_that_is_not_there_is_refused_and_no_step_lost(
    tmp_path: Path, open_writer: Callable[..., CheckpointWriter]
) -> None:
    writer = open_writer(keep=1, best="val/acuracy")
    writer.refuse_unknown_metric({})
    metrics = {"val/accuracy": 0.8, "val/loss": 1.0}
    assert writer.improves(metrics)
    with pytest.raises(UsageError, match="no such metric; did you mean 'val/accuracy'"), writer:
        writer.save(state_of(3), at(3), {}, metrics)
    verify_checkpoint(tmp_path / "step-00000003")


def test_a_kill_before_the_best_is_named_loses_nothing(
    tmp_path: Path, open_writer: Callable[..., CheckpointWriter]
) -> None:
    save_all(open_writer(keep=2, best="val/loss"), {1: 3.0, 2: 2.0})
    (tmp_path / "best.json").unlink()
    open_writer(resume_step=2, best="val/loss")
    assert read_best(tmp_path) == find_best(tmp_path, "val/loss")
    (tmp_path / "best.json").write_text("{")
    with pytest.raises(JaxLMError, match=r"best\.json: expected step, metric and value"):
        read_best(tmp_path)
    assert find_best(tmp_path, "val/loss").step == 2  # type: ignore[union-attr]


def test_another_metric_finds_its_own_best(
    tmp_path: Path, open_writer: Callable[..., CheckpointWriter]
) -> None:
    writer = open_writer(keep=2, best="val/loss")
    for step, loss, accuracy in ((1, 2.0, 0.5), (2, 3.0, 0.9)):
        writer.save(state_of(step), at(step), {}, {"val/loss": loss, "val/accuracy": accuracy})
    writer.wait()
    open_writer(resume_step=2, keep=2, best="val/accuracy")
    assert read_best(tmp_path).step == 2  # type: ignore[union-attr]


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_what_lies_past_the_step_to_go_on_from_is_set_aside(
    tmp_path: Path, said: list[str], open_writer: Callable[..., CheckpointWriter]
) -> None:
    """Else a damaged newest checkpoint would count as the newest that is kept."""
    save_all(open_writer(keep=3, best="val/loss"), {1: 3.0, 2: 2.5, 3: 2.0})
    (tmp_path / "_step-00000004.tmp" / "model").mkdir(parents=True)
    writer = open_writer(resume_step=2, keep=1, best="val/loss")
    kept = ["best.json", "step-00000001", "step-00000002"]
    assert names(tmp_path) == ["_step-00000003.damaged", *kept]
    assert "step 3 lies past" in said[0] and "_step-00000003.damaged" in said[0]
    verify_checkpoint(tmp_path / "_step-00000003.damaged")
    assert writer.improves({"val/loss": 2.4})
    assert not writer.improves({"val/loss": 2.6})
    open_writer(resume_step=2, keep=2)
    assert names(tmp_path) == ["_step-00000003.damaged-before", *kept]
    open_writer(resume_step=2, keep=2)
    assert names(tmp_path) == kept
    assert len(said) == 1


def test_a_start_where_checkpoints_lie_is_refused(
    tmp_path: Path, open_writer: Callable[..., CheckpointWriter]
) -> None:
    save_all(open_writer(), {1: 3.0, 2: 2.5})
    with pytest.raises(JaxLMError, match=r"holds checkpoints, the newest of step 2: .*resume_step"):
        open_writer()
    assert list_steps(tmp_path) == [1, 2]


def full_disk(*_: Any, **__: Any) -> None:
    raise OSError(28, "No space left on device")


def test_best_json_that_cannot_be_written_fails_no_save(
    tmp_path: Path,
    said: list[str],
    open_writer: Callable[..., CheckpointWriter],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer = open_writer(keep=1, best="val/loss")
    save_all(writer, {1: 3.0})
    monkeypatch.setattr(writer_module, "write_best", full_disk)
    save_all(writer, {2: 2.0})
    complaint = "step 2 is saved, but best.json could not be written: No space left on device"
    assert said == [complaint]
    assert list_steps(tmp_path) == [1, 2]  # the one that best.json still names is kept
    assert read_best(tmp_path).step == 1  # type: ignore[union-attr]
    assert writer.save(state_of(2), at(2), {}, {"val/loss": 2.0})  # on this thread
    assert said == [complaint] * 2
    monkeypatch.undo()
    assert not writer.improves({"val/loss": 2.5})
    save_all(writer, {3: 2.5})
    assert read_best(tmp_path).step == 2  # type: ignore[union-attr]
    assert list_steps(tmp_path) == [2, 3]


def test_older_ones_that_cannot_be_removed_fail_no_save(
    tmp_path: Path,
    said: list[str],
    open_writer: Callable[..., CheckpointWriter],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer = open_writer(keep=1)
    save_all(writer, {1: 3.0})
    monkeypatch.setattr(writer_module, "remove_older", full_disk)
    save_all(writer, {2: 2.0})
    assert writer.save(state_of(2), at(2), {})
    complaint = "step 2 is saved, but older ones could not be removed: No space left on device"
    assert said == [complaint] * 2
    monkeypatch.undo()
    save_all(writer, {3: 2.0})
    assert list_steps(tmp_path) == [3]


def test_a_saved_step_is_evaluated_later(
    tmp_path: Path, open_writer: Callable[..., CheckpointWriter]
) -> None:
    progress = at(5)
    save_checkpoint(tmp_path, **_without_average(5), progress=progress, config={}, keep=1)
    stamp = (tmp_path / "step-00000005").stat().st_mtime_ns
    writer = open_writer(resume_step=5, best="val/loss")
    assert writer.save(state_of(5), progress, {}, {"val/loss": 1.5})
    writer.close()
    assert read_best(tmp_path).value == 1.5  # type: ignore[union-attr]
    assert (tmp_path / "step-00000005").stat().st_mtime_ns == stamp


def _without_average(value: float) -> dict[str, Any]:
    return {name: tree for name, tree in state_of(value).items() if tree is not None}


def test_a_second_ctrl_c_does_not_wait(open_writer: Callable[..., CheckpointWriter]) -> None:
    writer = open_writer()
    hanging = threading.Thread(target=threading.Event().wait, daemon=True)
    hanging.start()
    with pytest.raises(KeyboardInterrupt), writer:
        writer._thread = hanging
        raise KeyboardInterrupt


def test_reasons_are_a_line() -> None:
    assert reason_of(ValueError("RESOURCE_EXHAUSTED: x: No space left on device [y]\nz")) == (
        "No space left on device"
    )
    assert reason_of(ValueError("first\nsecond")) == "first"
    assert len(reason_of(ValueError("x" * 1000))) < 310
    assert reason_of(TimeoutError()) == "TimeoutError"

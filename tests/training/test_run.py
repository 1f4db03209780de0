import errno
import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm import checkpoints
from jax_lm.checkpoints import saving
from jax_lm.errors import JaxLMError, SavedAndStopped, StoppedByUser
from jax_lm.pretrained import open_model
from jax_lm.trackers.jsonl import JsonlTracker, read_metrics
from jax_lm.training import finish, loop
from jax_lm.training import run as run_module
from jax_lm.training.config import TrainConfig
from jax_lm.training.run import train
from jax_lm.training.state import TrainState
from jax_lm.types import Batch
from tests.training.same_run import assert_same_run, weights


def quiet(line: str) -> None:
    """Says nothing."""


@pytest.fixture
def stop_at(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Send this process a signal when training metrics of a step are logged."""

    def arrange(step: int, number: signal.Signals) -> None:
        log = JsonlTracker.log

        def log_and_signal(self: JsonlTracker, logged: int, metrics: dict[str, float]) -> None:
            log(self, logged, metrics)
            if logged == step and "train/loss" in metrics:
                os.kill(os.getpid(), number)

        monkeypatch.setattr(JsonlTracker, "log", log_and_signal)

    return arrange


def test_a_run_leaves_what_it_promises(config: TrainConfig) -> None:
    said: list[str] = []
    sampled = replace(config.evaluation, sample_prompt="def ", sample_tokens=4)
    run = train(replace(config, evaluation=sampled), said.append)
    names = {path.name for path in run.iterdir()}
    assert {
        "config.json",
        "metrics.jsonl",
        "tensorboard",
        "samples",
        "report.html",
        "checkpoints",
        "final",
    } <= names
    assert not [name for name in names if name.startswith("_")]
    assert checkpoints.list_steps(run / "checkpoints") == [8, 12]
    rows = read_metrics(run / "metrics.jsonl")
    assert [row["step"] for row in rows if "val/loss" in row] == [0, 6, 12]
    assert [row["step"] for row in rows if "train/loss" in row] == [2, 4, 6, 8, 10, 12]
    assert rows[-1]["val/loss"] < rows[0]["val/loss"] - 0.5
    last_loss = [row["train/loss"] for row in rows if "train/loss" in row][-1]
    assert f"{last_loss:.4f}" in (run / "report.html").read_text()
    sample = (run / "samples" / "step-00000012.txt").read_text()
    assert sample.startswith('--- prompt: "def "\ndef ')
    assert len(sample.strip()) > len('--- prompt: "def "\ndef ')
    config_saved = json.loads((run / "config.json").read_text())
    assert config_saved["model"]["vocab_size"] == 300
    assert any("parameters" in line for line in said)
    assert any("12 steps of 4 rows" in line for line in said)


def test_models_are_opened_by_run_and_by_step(config: TrainConfig) -> None:
    run = str(train(config, quiet))
    assert open_model(run).path == Path(run) / "final"
    last = open_model(f"{run}@12")
    assert last.path.name == "step-00000012"
    for final, saved in zip(weights(run), jax.tree.leaves(last.model), strict=True):
        np.testing.assert_array_equal(final, saved)
    shutil.rmtree(Path(run) / "final")
    assert open_model(run).path.name == "step-00000012"
    with pytest.raises(JaxLMError, match=r"@3: no such checkpoint \(steps with one: 8, 12\)"):
        open_model(f"{run}@3")


def test_same_seed_same_run_and_another_seed_another(config: TrainConfig, tmp_path: Path) -> None:
    runs = [str(tmp_path / name) for name in "abc"]
    for run_dir, seed in zip(runs, (0, 0, 1), strict=True):
        train(replace(config, run_dir=run_dir, seed=seed), quiet)
    assert_same_run(runs[0], runs[1])
    assert any((a != b).any() for a, b in zip(weights(runs[0]), weights(runs[2]), strict=True))


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGTERM, SavedAndStopped), (signal.SIGINT, StoppedByUser)]
)
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_a_stopped_run_goes_on_bit_by_bit(
    number: signal.Signals,
    error: type[JaxLMError],
    dropout: float,
    config: TrainConfig,
    tmp_path: Path,
    stop_at: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = replace(config, model=replace(config.model, dropout=dropout))
    whole = replace(config, run_dir=str(tmp_path / "whole"))
    train(whole, quiet)
    stop_at(6, number)
    with pytest.raises(error, match="saved step 6"):
        train(config, quiet)
    monkeypatch.undo()
    train(replace(config, resume="auto"), quiet)
    assert_same_run(whole.run_dir, config.run_dir)


def test_time_is_up(config: TrainConfig) -> None:
    said: list[str] = []
    run = train(replace(config, max_time=1e-9), said.append)
    assert any("time is up at step 0 of 12" in line for line in said)
    assert (run / "final" / "model.safetensors").is_file()
    said.clear()
    train(replace(config, resume="auto"), said.append)
    assert read_metrics(run / "metrics.jsonl")[-1]["step"] == 12


def test_time_is_up_in_the_middle(config: TrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The card of a run cut short tells the numbers of its last step, not of an earlier one."""
    ticks = iter(range(1000))
    monkeypatch.setattr(loop, "monotonic", lambda: float(next(ticks)))
    run = train(replace(config, max_time=5.5 / 60), quiet)
    last = read_metrics(run / "metrics.jsonl")[-1]
    assert 0 < last["step"] < 12
    assert f"{last['val/loss']:.4f}" in (run / "final" / "README.md").read_text()


def test_a_directory_with_a_run_is_not_written_over(config: TrainConfig) -> None:
    train(replace(config, steps=2), quiet)
    with pytest.raises(JaxLMError, match="already holds a run: continue it with --resume auto"):
        train(config, quiet)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 3}, "seed was 0, now 3"),
        ({"batch_size": 8}, "batch_size was 4, now 8"),
        ({"dtype": "bfloat16"}, "dtype was 'float32', now 'bfloat16'"),
    ],
)
def test_another_configuration_is_refused_on_resume(
    changes: dict[str, Any], message: str, resumed: TrainConfig
) -> None:
    train(replace(resumed, steps=4), quiet)
    with pytest.raises(JaxLMError, match=message):
        train(replace(resumed, **changes), quiet)


def test_a_loss_that_is_not_finite_is_skipped_then_stops(
    config: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = run_module.make_train_step

    def poisoned(*args: Any, **settings: Any) -> Any:
        step = make(*args, **settings)

        def run(state: TrainState, batch: Batch) -> Any:
            bad = int(state.optimizer.step) in bad_steps
            weights = batch.loss_mask * (jnp.nan if bad else 1.0)
            return step(state, batch._replace(loss_mask=weights))

        return run

    monkeypatch.setattr(run_module, "make_train_step", poisoned)
    bad_steps = {5}
    run = train(config, quiet)
    assert np.isfinite(np.concatenate([leaf.ravel() for leaf in weights(str(run))])).all()
    rows = {row["step"]: row for row in read_metrics(run / "metrics.jsonl") if "train/loss" in row}
    assert rows[6]["train/loss"] is None
    assert [rows[step]["train/skipped_steps"] for step in (4, 6, 12)] == [0, 1, 1]
    bad_steps = {6, 7, 8}
    elsewhere = replace(config, run_dir=f"{config.run_dir}-bad", max_bad_steps=3)
    with pytest.raises(JaxLMError, match=r"step 9: .* for 3 steps in a row \(rows of the last one"):
        train(elsewhere, quiet)


@pytest.fixture
def full_at_four(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that has no room for the checkpoint of step 4."""
    write = saving.write_checksums

    def refusing(directory: Path) -> None:
        if "step-00000004" in directory.name:
            raise OSError(28, "No space left on device")
        write(directory)

    monkeypatch.setattr(saving, "write_checksums", refusing)


def test_a_failed_save_is_told_and_training_goes_on(
    config: TrainConfig, full_at_four: None
) -> None:
    said: list[str] = []
    run = train(config, said.append)
    assert any("step 4 could not be saved, training goes on: No space" in line for line in said)
    assert checkpoints.list_steps(run / "checkpoints") == [8, 12]


def test_a_run_that_is_stopped_and_cannot_save_fails(
    config: TrainConfig, full_at_four: None, stop_at: Any
) -> None:
    stop_at(4, signal.SIGTERM)
    with pytest.raises(JaxLMError, match="step 4 could not be saved: No space left") as failed:
        train(config, quiet)
    assert failed.value.exit_code == 1


def test_several_held_out_sets_have_names(config: TrainConfig) -> None:
    sets = (f"own={config.data.train[0]}", f"other={config.data.validation[0]}")
    data = replace(config.data, validation=sets)
    run = train(replace(config, data=data, steps=1), quiet)
    metrics = read_metrics(run / "metrics.jsonl")[-1]
    assert {"val/own/loss", "val/other/bits_per_byte"} <= metrics.keys()
    with pytest.raises(JaxLMError, match="two held-out sets are called 'own'"):
        train(
            replace(config, data=replace(data, validation=(sets[0], sets[0])), run_dir="unused"),
            quiet,
        )


def test_bfloat16_and_remat_train(config: TrainConfig) -> None:
    run = train(replace(config, dtype="bfloat16", remat="full"), quiet)
    rows = read_metrics(run / "metrics.jsonl")
    assert rows[-1]["val/loss"] < rows[0]["val/loss"] - 0.5
    assert all(leaf.dtype == np.float32 for leaf in weights(str(run)))


def test_an_export_that_cannot_be_written_is_told_and_made_later(
    config: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(finish, "write_directory", full)
        with pytest.raises(JaxLMError, match=r"export cannot be written: No space left.*resume"):
            train(config, quiet)
    run = train(replace(config, resume="auto"), quiet)
    assert (run / "final" / "model.safetensors").is_file()


def test_no_time_at_all_and_nothing_held_out(config: TrainConfig) -> None:
    unseen = replace(config, max_time=1e-9, data=replace(config.data, validation=()))
    run = train(unseen, quiet)
    assert (run / "final" / "model.safetensors").is_file()
    assert not (run / "report.html").exists()


def test_a_signal_while_the_model_is_exported_changes_nothing(
    config: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = finish.write_directory

    def signalled(*arguments: Any, **settings: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        write(*arguments, **settings)

    monkeypatch.setattr(finish, "write_directory", signalled)
    run = train(replace(config, steps=2), quiet)
    assert (run / "final" / "model.safetensors").is_file()

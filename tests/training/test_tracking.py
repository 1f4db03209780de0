"""What a run tells its trackers, read back from each."""

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from jax_lm.loading.loader import Loader
from jax_lm.models.gpt2 import GPT2Config
from jax_lm.models.roberta import RobertaConfig
from jax_lm.objectives.masked_lm import MaskedLMConfig
from jax_lm.sharding.mesh import MeshConfig, make_mesh
from jax_lm.trackers.jsonl import read_metrics
from jax_lm.trackers.tensorboard import TensorboardTracker
from jax_lm.training.config import (
    CheckpointConfig,
    DataConfig,
    EvaluationConfig,
    TrackingConfig,
    TrainConfig,
)
from jax_lm.training.plan import make_plan
from jax_lm.training.run import train
from jax_lm.training.summary import summarise
from tests.conftest import TinyFeatures
from tests.wandb_file import configuration, history, run_ids


class Tracked(NamedTuple):
    path: Path
    said: list[str]
    rows: list[dict[str, Any]]


@pytest.fixture(scope="module")
def tracked(tiny_features: TinyFeatures, tmp_path_factory: pytest.TempPathFactory) -> Tracked:
    """Ten steps in two processes' worth: stopped after the sixth, then continued."""
    config = TrainConfig(
        model=GPT2Config(context_length=32, num_layers=1, num_heads=2, embed_dim=16),
        data=DataConfig(train=(tiny_features.train,), validation=(tiny_features.held_out,)),
        evaluation=EvaluationConfig(
            every=5, at_start=False, sample_prompt=("def ", "import "), sample_tokens=3, max_rows=3
        ),
        checkpoint=CheckpointConfig(every=6),
        tracking=TrackingConfig(every=2, wandb_project="tests", wandb_mode="offline", histograms=4),
        run_dir=str(tmp_path_factory.mktemp("tracked") / "run"),
        steps=6,
        batch_size=4,
    )
    said: list[str] = []
    train(config, said.append)
    path = train(replace(config, steps=10, resume="auto"), said.append)
    return Tracked(path, said, read_metrics(path / "metrics.jsonl"))


def numbers(rows: list[dict[str, Any]]) -> dict[tuple[int, str], float]:
    return {
        (row["step"], name): value
        for row in rows
        for name, value in row.items()
        if "/" in name and value is not None
    }


def test_wandb_has_what_metrics_jsonl_has(tracked: Tracked) -> None:
    theirs = history(tracked.path)
    steps = [row["_step"] for row in theirs]
    assert steps == sorted(set(steps))
    found = {
        (row["_step"], name): value
        for row in theirs
        for name, value in row.items()
        if name.startswith(("train/", "val/"))
    }
    assert found == numbers(tracked.rows)
    assert len(run_ids(tracked.path)) == 1
    assert configuration(tracked.path)["model"]["embed_dim"] == 16


def test_tensorboard_has_what_metrics_jsonl_has(tracked: Tracked) -> None:
    module = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs tensorboard"
    )
    events = module.EventAccumulator(
        str(tracked.path / "tensorboard"), size_guidance={"histograms": 0, "scalars": 0}
    ).Reload()
    found = {
        (event.step, name): event.value
        for name in events.Tags()["scalars"]
        for event in events.Scalars(name)
    }
    expected = numbers(tracked.rows)
    assert found.keys() == expected.keys()
    for key, value in expected.items():  # TensorBoard keeps float32
        assert math.isclose(found[key], value, rel_tol=1e-6), key
    names = events.Tags()["histograms"]
    assert {"gradients/token_embedding", "gradients/blocks.attention.query_weight"} <= set(names)
    for name in names:
        assert [event.step for event in events.Histograms(name)] == [4, 8]
    value = events.Histograms("gradients/blocks.feed_forward.up_weight")[0].histogram_value
    assert (value.num, len(value.bucket), value.min) == (16 * 64, 64, -value.max)
    assert value.bucket[0] + value.bucket[-1] >= 1  # the largest of all is at one end


def test_every_number_is_there(tracked: Tracked) -> None:
    training = [row for row in tracked.rows if "train/loss" in row]
    assert [row["step"] for row in training] == [2, 4, 6, 8, 10]
    assert [row["step"] for row in tracked.rows if "val/loss" in row] == [5, 6, 10]
    assert not [name for row in tracked.rows for name in row if name.startswith("gradients")]
    for row in training:
        assert 0 <= row["train/data_seconds"] < row["train/step_seconds"]
        assert 0.05 < row["train/memory_gb"] < 100
        assert row["train/tokens"] == row["step"] * 4 * 32
    rates = [row["train/tokens_per_second"] * row["train/step_seconds"] for row in training[1:]]
    assert rates[0] == pytest.approx(4 * 32)


def test_what_is_said(tracked: Tracked) -> None:
    started = [line for line in tracked.said if line.startswith("started")]
    assert len(started) == 2
    assert "first step after" in started[0] and "(compiled in" in started[0]


def test_several_prompts_are_continued(tracked: Tracked) -> None:
    text = (tracked.path / "samples" / "step-00000010.txt").read_text()
    assert '--- prompt: "def "\ndef ' in text and '--- prompt: "import "\nimport ' in text


def test_a_tracker_that_fails_stops_nothing(
    config: TrainConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(self: TensorboardTracker, step: int, metrics: Mapping[str, float]) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(TensorboardTracker, "log", full)
    run = train(replace(config, steps=4), lambda _: None)
    assert capsys.readouterr().err.count("TensorboardTracker failed and is left out") == 1
    assert read_metrics(run / "metrics.jsonl")[-1]["step"] == 4
    assert (run / "final" / "model.safetensors").is_file()


def test_a_blocked_loader_prints_a_stack(
    config: TrainConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = Loader._batch

    def blocked(self: Loader, order: Any, start: int) -> Any:
        if start == 8 * 4:
            time.sleep(1.5)
        return batch(self, order, start)

    monkeypatch.setattr(Loader, "_batch", blocked)
    run = train(replace(config, stall_minutes=0.5 / 60), lambda _: None)
    said = capsys.readouterr().err
    assert "jax-lm: step 9: waiting for data for 0." in said
    assert "in blocked" in said and "in _next_batch" in said
    assert "step 9 goes on" in said
    assert read_metrics(run / "metrics.jsonl")[-1]["step"] == 12


def test_the_best_checkpoint_is_saved_at_its_evaluation(config: TrainConfig) -> None:
    best = CheckpointConfig(every=100, keep=1, best="val/loss")
    settings = replace(config.evaluation, every=5)
    run = train(replace(config, checkpoint=best, evaluation=settings), lambda _: None)
    steps = sorted(path.name for path in (run / "checkpoints").glob("step-*"))
    held_out = {
        row["step"]: row["val/loss"]
        for row in read_metrics(run / "metrics.jsonl")
        if row.get("val/loss")
    }
    lowest = min(held_out, key=held_out.__getitem__)
    assert f"step-{lowest:08d}" in steps


def test_encoders_write_no_samples_and_say_so(config: TrainConfig) -> None:
    encoder = replace(
        config,
        model=RobertaConfig(
            context_length=32,
            num_layers=1,
            num_heads=2,
            embed_dim=16,
            mlp_dim=16,
            vocab_size=300,
            pad_id=0,
        ),
        objective=MaskedLMConfig(),
        evaluation=replace(config.evaluation, sample_tokens=8),
    )
    data: Any = SimpleNamespace(
        tokenizer=SimpleNamespace(vocab_size=300), train=range(9), num_bytes=9, source="text",
        shares={}, validation={}, target_length=32,
    )  # fmt: skip
    plan = make_plan(encoder, rows=9, row_shards=1)
    progress: Any = SimpleNamespace(step=0)
    lines = list(summarise(encoder, plan, data, make_mesh(MeshConfig()), progress))
    assert "samples   none: only decoder-only models continue a text" in lines
    assert any("memory is counted by the process" in line for line in lines)

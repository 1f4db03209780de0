"""What a resumed run may change, and what it begins with."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.checkpoints import Progress, save_checkpoint
from jax_lm.dataclass_json import to_json
from jax_lm.errors import JaxLMError, UsageError
from jax_lm.models.low_rank import LoraConfig
from jax_lm.sharding.mesh import MeshConfig
from jax_lm.trackers.jsonl import read_metrics
from jax_lm.training.beginning.resuming import Resumption, refuse_unknown_keys, resumption
from jax_lm.training.config import CheckpointConfig, EvaluationConfig, TrackingConfig, TrainConfig
from jax_lm.training.run import train
from tests.training.same_run import optimizer_state, weights


@pytest.fixture
def checkpoint(config: TrainConfig, tmp_path: Path) -> Path:
    """Of a run that has taken 3 steps of 4 rows."""
    return save_checkpoint(
        tmp_path / "checkpoints",
        model={"weight": jnp.zeros(2)},
        optimizer={"step": jnp.int32(3)},
        progress=Progress(step=3, position=12, tokens=9, data="rows"),
        config=to_json(config),
        keep=1,
    )


def go_on(
    checkpoint: Path, config: TrainConfig, *, data: str = "rows", batch_size: int = 4
) -> Resumption:
    return resumption(
        checkpoint,
        to_json(config),
        data=data,
        batch_size=batch_size,
        allowed=config.allow_change,
    )


def test_length_and_what_is_watched_may_change(checkpoint: Path, config: TrainConfig) -> None:
    other = replace(
        config,
        steps=None,
        epochs=2.0,
        evaluation=EvaluationConfig(every=3, max_rows=7),
        checkpoint=CheckpointConfig(every=5, keep=9, best="val/loss"),
        tracking=TrackingConfig(every=1, tensorboard=False),
        mesh=MeshConfig(fsdp=4),
        accumulation_steps=2,
        remat="full",
        max_time=3.0,
        max_bad_steps=2,
        stall_minutes=1.0,
        profile=3,
        run_dir="elsewhere",
        peak_tflops=10.0,
        compilation_cache=None,
        batch_size=None,
        batch_size_per_device=2,
        resume="auto",
    )
    found = go_on(checkpoint, other)
    assert found.changed == ()
    assert found.progress == Progress(step=3, position=12, tokens=9, data="rows", batch_size=4)


@pytest.mark.parametrize(
    ("change", "message", "flag"),
    [
        ({"seed": 3}, "seed was 0, now 3", "seed"),
        ({"dtype": "bfloat16"}, "dtype was 'float32', now 'bfloat16'", "dtype"),
        ({"z_loss": 0.5}, "z_loss was 0.0, now 0.5", "z_loss"),
        ({"lora": LoraConfig(rank=2)}, "lora.rank was 0, now 2", "lora"),
    ],
)
def test_what_the_run_is_may_not_change_unless_allowed(
    change: dict[str, Any], message: str, flag: str, checkpoint: Path, config: TrainConfig
) -> None:
    changed = replace(config, **change)
    with pytest.raises(JaxLMError) as refused:
        go_on(checkpoint, changed)
    assert message in str(refused.value)
    assert f"--allow-change {flag}" in str(refused.value)
    found = go_on(checkpoint, replace(changed, allow_change=(flag,)))
    assert all(key.split(".")[0] == flag for key in found.changed)
    assert found.changed


def test_all_that_differs_is_named_at_once(checkpoint: Path, config: TrainConfig) -> None:
    optimizer = replace(config.optimizer, learning_rate=0.5, beta2=0.5)
    changed = replace(config, optimizer=optimizer, seed=9, allow_change=("--optimizer.beta2",))
    with pytest.raises(
        JaxLMError,
        match=r"\(optimizer.learning_rate was 0.01, now 0.5; seed was 0, now 9\).*"
        r"--allow-change optimizer.learning_rate seed$",
    ):
        go_on(checkpoint, changed)
    allowed = replace(changed, allow_change=("optimizer", "seed"))
    assert go_on(checkpoint, allowed).changed == (
        "optimizer.beta2",
        "optimizer.learning_rate",
        "seed",
    )


def test_other_rows_under_the_same_name(checkpoint: Path, config: TrainConfig) -> None:
    with pytest.raises(JaxLMError, match=r"data.train has other rows .* was rows, now others"):
        go_on(checkpoint, config, data="others")
    found = go_on(checkpoint, replace(config, allow_change=("data",)), data="others")
    assert found.progress.data == "others"


def test_another_batch_reads_other_rows(checkpoint: Path, config: TrainConfig) -> None:
    with pytest.raises(JaxLMError, match=r"batch_size was 4, now 8.*--allow-change batch_size"):
        go_on(checkpoint, config, batch_size=8)
    found = go_on(checkpoint, replace(config, allow_change=("batch-size",)), batch_size=8)
    assert (found.progress.position, found.progress.batch_size) == (12, 8)


def test_a_batch_changed_before_is_what_counts(config: TrainConfig, tmp_path: Path) -> None:
    directory = save_checkpoint(
        tmp_path / "checkpoints",
        model={"weight": jnp.zeros(2)},
        optimizer={"step": jnp.int32(5)},
        progress=Progress(step=5, position=28, tokens=9, data="rows", batch_size=8),
        config=to_json(config),
        keep=1,
    )
    assert go_on(directory, config, batch_size=8).changed == ()
    with pytest.raises(JaxLMError, match="batch_size was 8, now 4"):
        go_on(directory, config, batch_size=4)


def test_keys_that_an_older_version_did_not_write_have_their_defaults(
    config: TrainConfig, tmp_path: Path
) -> None:
    values = to_json(config)
    del values["lora"], values["z_loss"]
    directory = save_checkpoint(
        tmp_path / "checkpoints",
        model={"weight": jnp.zeros(2)},
        optimizer={"step": jnp.int32(0)},
        progress=Progress(step=0, position=0, tokens=0, data="rows"),
        config=values,
        keep=1,
    )
    assert go_on(directory, config).changed == ()
    with pytest.raises(JaxLMError, match=r"z_loss was 0\.0, now 0\.1"):
        go_on(directory, replace(config, z_loss=0.1))


def test_unknown_keys_are_named_with_the_nearest(config: TrainConfig) -> None:
    refuse_unknown_keys(replace(config, allow_change=("data", "model.dropout", "--batch-size")))
    with pytest.raises(UsageError, match=r"no such key; did you mean 'optimizer\.beta2'"):
        refuse_unknown_keys(replace(config, allow_change=("optimizer.beta_2",)))
    with pytest.raises(UsageError, match=r"--allow-change moddel: .* did you mean 'model'"):
        train(replace(config, allow_change=("moddel",)), print)


@pytest.fixture
def stopped(config: TrainConfig) -> TrainConfig:
    """A run that has taken 4 of its 12 steps, to be continued."""
    config = replace(config, data=replace(config.data, validation=()))
    train(replace(config, steps=4), lambda line: None)
    return replace(config, resume="auto", steps=8)


def test_another_optimizer_starts_afresh_where_the_schedule_was(stopped: TrainConfig) -> None:
    lion = replace(stopped.optimizer, name="lion", ema_decay=0.5)
    said: list[str] = []
    config = replace(stopped, optimizer=lion, allow_change=("optimizer",))
    run = train(config, said.append)
    assert "changed   optimizer.name, as --allow-change says" in said
    assert any(line.startswith("optimizer starts afresh") for line in said)
    assert any(line.startswith("average ") and "starts here" in line for line in said)
    state = optimizer_state(str(run))
    assert int(state["step"]) == 8
    counts = [int(value) for name, value in state.items() if name.endswith("rate.count")]
    assert counts == [8]
    assert {row["step"] for row in read_metrics(run / "metrics.jsonl")} >= {2, 4, 6, 8}


def test_a_changed_number_keeps_the_state(stopped: TrainConfig) -> None:
    optimizer = replace(stopped.optimizer, learning_rate=1e-3)
    said: list[str] = []
    train(replace(stopped, optimizer=optimizer, allow_change=("optimizer",)), said.append)
    assert any("learning_rate" in line for line in said)
    assert not any("afresh" in line for line in said)


def test_weights_alone_start_at_step_zero(config: TrainConfig, tmp_path: Path) -> None:
    """From a checkpoint of a run, or a Hugging Face directory."""
    first = train(replace(config, steps=8), lambda line: None)
    for name in ("RUN@4", "final"):
        origin = {"RUN@4": f"{first}@4", "final": str(first / "final")}[name]
        said: list[str] = []
        config = replace(
            config, init_from=origin, steps=1, run_dir=str(tmp_path / name.replace("@", "-"))
        )
        stop_before_training = replace(config, max_time=1e-9)
        run = train(stop_before_training, said.append)
        assert any(line.startswith("weights ") for line in said)
        for found, expected in zip(weights(str(run)), weights(origin), strict=True):
            np.testing.assert_array_equal(found, expected)
        state = optimizer_state(str(run))
        assert int(state["step"]) == 0
        assert all(not np.any(leaf) for leaf in jax.tree.leaves(state))

"""Saved on one mesh, read on others, in a process with eight devices."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from jax_lm.models.gpt2 import GPT2Config
from jax_lm.optimizers.config import OptimizerConfig
from jax_lm.sharding.mesh import MeshConfig
from jax_lm.trackers.jsonl import read_metrics
from jax_lm.training.config import (
    CheckpointConfig,
    EvaluationConfig,
    TrackingConfig,
    TrainConfig,
)
from tests.conftest import FAST_COMPILATION, TinyFeatures
from tests.faults.tiny_run import start, tiny_config

SCRIPT = """
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jax_lm.checkpoints import CheckpointWriter, Progress, restore_arrays
from jax_lm.training.config import CheckpointConfig

SHAPES = {"embedding": (64, 16), "stacked": (2, 16, 8), "norm": (16,), "step": ()}


def values(name):
    return np.random.default_rng(len(name)).standard_normal(SHAPES[name]).astype(np.float32)


def mesh(**axes):
    count = int(np.prod(list(axes.values())))
    types = (AxisType.Auto,) * len(axes)
    return jax.make_mesh(tuple(axes.values()), tuple(axes), types, devices=jax.devices()[:count])


def shardings(on, embedding, stacked):
    specs = {"embedding": embedding, "stacked": stacked, "norm": P(), "step": P()}
    return {name: NamedSharding(on, spec) for name, spec in specs.items()}


saved = shardings(mesh(fsdp=8), P("fsdp"), P(None, "fsdp"))
others = {
    "two by four": shardings(mesh(data=2, tensor=4), P("tensor"), P(None, None, "tensor")),
    "fsdp on another axis": shardings(mesh(fsdp=4), P(None, "fsdp"), P(None, None, "fsdp")),
    "one device": shardings(mesh(data=1), P(), P()),
}
model = {name: jax.device_put(values(name), sharding) for name, sharding in saved.items()}
assert model["embedding"].addressable_shards[0].data.shape == (8, 16)
step = jax.jit(lambda tree: jax.tree.map(lambda leaf: leaf * 2, tree), donate_argnums=0)
directory = Path(sys.argv[1])
with CheckpointWriter(directory, CheckpointConfig()) as writer:
    writer.save({"model": model}, Progress(step=1, position=8, tokens=8, data=""), {})
    step(model)
    writer.wait()
for name, wanted in others.items():
    like = {
        key: jax.ShapeDtypeStruct(SHAPES[key], jnp.float32, sharding=sharding)
        for key, sharding in wanted.items()
    }
    found = restore_arrays(directory / "step-00000001" / "model", like)
    for key, array in found.items():
        assert array.sharding == wanted[key], (name, key, array.sharding)
        np.testing.assert_array_equal(np.asarray(array), values(key))
    if name == "two by four":
        assert found["stacked"].addressable_shards[0].data.shape == (2, 16, 2)
print("equal on", len(others))
"""


def test_saved_on_fsdp_8_and_read_on_other_meshes(tmp_path: Path) -> None:
    flags = "--xla_force_host_platform_device_count=8"
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        env=os.environ | {"XLA_FLAGS": flags},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.stdout == "equal on 3\n"


def run_on(config: TrainConfig, devices: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """Train in a process with so many devices; gives what it said."""
    flags = f"{FAST_COMPILATION} --xla_force_host_platform_device_count={devices}"
    monkeypatch.setenv("XLA_FLAGS", flags)
    log = Path(f"{config.run_dir}.log")
    process = start(config, log=log)
    assert process.wait(timeout=300) == 0, log.read_text()[-2000:]
    return log.read_text()


def losses_after(run_dir: str, step: int) -> list[float]:
    rows = read_metrics(Path(run_dir) / "metrics.jsonl")
    names = ("train/loss", "train/grad_norm", "val/loss")
    return [row[name] for row in rows for name in names if row["step"] > step and name in row]


@pytest.mark.slow
def test_a_run_goes_on_on_other_meshes(
    tiny_features: TinyFeatures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Begun on fsdp 8, it takes the same steps on data 2 x tensor 4 and on one device."""
    config = tiny_config(
        tiny_features,
        tmp_path / "fsdp",
        model=GPT2Config(context_length=32, num_layers=2, num_heads=4, embed_dim=32, dropout=0.1),
        optimizer=OptimizerConfig(learning_rate=1e-2, warmup_steps=2, ema_decay=0.9),
        mesh=MeshConfig(fsdp=8),
        checkpoint=CheckpointConfig(every=5, keep=9),
        evaluation=EvaluationConfig(every=10, sample_tokens=0, max_rows=8),
        tracking=TrackingConfig(every=1, tensorboard=False),
        batch_size=8,
        steps=10,
    )
    run_on(config, 8, monkeypatch)
    expected = losses_after(config.run_dir, 5)
    assert len(expected) == 2 * 5 + 1
    for name, mesh, devices in (
        ("two-by-four", MeshConfig(data=2, tensor=4), 8),
        ("one", MeshConfig(), 1),
        ("again", MeshConfig(fsdp=8), 8),
    ):
        other = replace(config, run_dir=str(tmp_path / name), mesh=mesh)
        shutil.copytree(config.run_dir, other.run_dir)
        shutil.rmtree(tmp_path / name / "final")
        shutil.rmtree(tmp_path / name / "checkpoints" / "step-00000010")
        assert "continuing after step 5" in run_on(other, devices, monkeypatch)
        found = losses_after(other.run_dir, 5)
        assert found == pytest.approx(expected, rel=0 if name == "again" else 1e-5, abs=0), name

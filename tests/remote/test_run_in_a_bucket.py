"""A whole run that only a bucket holds: killed, resumed on another machine, evaluated there."""

import dataclasses
from pathlib import Path

import pytest

from jax_lm.cli.main import main
from jax_lm.optimizers.config import OptimizerConfig
from jax_lm.training.config import DataConfig, TrainConfig
from jax_lm.training.run import train
from tests.conftest import TinyFeatures
from tests.faults.tiny_run import quiet, start, tiny_config, wait_for
from tests.remote.buckets import google_bucket, put_features
from tests.training.same_run import numbers

BUCKET = "experiments"


def config_in(features: TinyFeatures, run_dir: str, steps: int) -> TrainConfig:
    data = DataConfig(
        train=(f"gs://{BUCKET}/features/train",), validation=(f"gcs://{BUCKET}/features/held-out",)
    )
    # Of a rate that does not end with the run, so that a longer run begins as a shorter one does.
    optimizer = OptimizerConfig(learning_rate=1e-2, warmup_steps=10, schedule="constant")
    config = tiny_config(features, Path("unused"), steps=steps, data=data, optimizer=optimizer)
    return dataclasses.replace(config, run_dir=run_dir)


@pytest.mark.slow
def test_killed_and_resumed_on_another_machine(
    google_storage: str,
    tiny_features: TinyFeatures,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = f"gs://{BUCKET}/run"
    with google_bucket(google_storage, BUCKET) as filesystem:
        for name in ("train", "held-out"):
            place = str(Path(tiny_features.train).parent / name)
            put_features(filesystem, place, f"{BUCKET}/features")
        monkeypatch.setenv("JAX_LM_CACHE", str(tmp_path / "first-machine"))
        config = config_in(tiny_features, url, steps=3000)
        process = start(config, log=tmp_path / "log")

        def uploaded() -> bool:
            filesystem.invalidate_cache()
            return len(filesystem.glob(f"{BUCKET}/run/checkpoints/*/checksums.json")) > 2

        assert wait_for(uploaded, process), (tmp_path / "log").read_text()[-2000:]
        process.kill()
        process.wait()
        steps = sorted(
            int(name.split("/")[3][5:])
            for name in filesystem.glob(f"{BUCKET}/run/checkpoints/step-*/checksums.json")
        )
        monkeypatch.setenv("JAX_LM_CACHE", str(tmp_path / "another-machine"))
        config = dataclasses.replace(config, steps=steps[-1] + 60)
        said: list[str] = []
        resumed = train(config, said.append)
        assert f"run       {url}, continuing after step {steps[-1]:,}" in said
        assert said[-1] == f"uploaded  {url}"
        whole = train(
            dataclasses.replace(config, run_dir=str(tmp_path / "whole"), resume="never"), quiet
        )
        assert len(numbers(str(whole))) > steps[-1] // 5 + 12
        assert numbers(str(resumed)) == numbers(str(whole))
        monkeypatch.setenv("JAX_LM_CACHE", str(tmp_path / "third-machine"))
        capsys.readouterr()
        text = str(tiny_features.held_out_text)
        assert evaluated(f"{url}/final", text, capsys) == evaluated(f"{whole}/final", text, capsys)


def evaluated(model: str, text: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The numbers of ``jax-lm evaluate``, without the lines that say where the model is."""
    assert main(["evaluate", model, text, "--no-compressors"]) == 0
    printed = capsys.readouterr().out
    return printed[printed.index("bits per byte") :]

"""A disk that runs full during a save: training goes on, and the older checkpoint is whole."""

import gc
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jax_lm.checkpoints import list_steps, verify_checkpoint
from jax_lm.training.run import train
from tests.conftest import TinyFeatures
from tests.faults.tiny_run import quiet, tiny_config
from tests.training.same_run import assert_same_run


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four megabytes, where the system lets us make one."""
    place = tmp_path / "run" / "checkpoints"
    place.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.slow
def test_training_goes_on_beside_a_full_disk(
    small_disk: Path,
    undisturbed_run: Path,
    tiny_features: TinyFeatures,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    saved = undisturbed_run / "checkpoints"
    size = sum(path.stat().st_blocks * 512 for path in saved.rglob("*") if path.is_file())
    one = size // len(list_steps(saved))
    ballast = small_disk / "_ballast"
    ballast.write_bytes(b"\0" * (4 * 2**20 - one * 7 // 4))
    config = tiny_config(tiny_features, tmp_path / "run")
    said: list[str] = []
    train(config, said.append)
    refused = [line for line in said if "could not be saved, training goes on" in line]
    assert len(refused) >= 2
    gc.collect()
    assert "Traceback" not in capfd.readouterr().err
    assert "never retrieved" not in caplog.text
    assert all(line.endswith("No space left on device") for line in refused)
    assert list_steps(small_disk) == [10]
    verify_checkpoint(small_disk / "step-00000010")
    assert (tmp_path / "run" / "final" / "model.safetensors").is_file()
    ballast.unlink()
    train(config, quiet)
    assert_same_run(str(undisturbed_run), config.run_dir)

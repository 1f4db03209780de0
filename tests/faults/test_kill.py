"""SIGKILL in the middle of training, for real."""

from pathlib import Path
from typing import Any

import pytest

from jax_lm.errors import JaxLMError
from jax_lm.training.config import CheckpointConfig, DataConfig
from jax_lm.training.run import train
from tests.conftest import TinyFeatures
from tests.faults.tiny_run import MARKED, quiet, start, tiny_config, wait_for
from tests.training.same_run import assert_same_run


def test_a_killed_run_goes_on_bit_by_bit(tiny_features: TinyFeatures, tmp_path: Path) -> None:
    """And while it lives, a second run in its directory is refused."""
    settings: dict[str, Any] = {
        "data": DataConfig(train=(tiny_features.train,)),
        "checkpoint": CheckpointConfig(every=5, keep=3),
        "steps": 20,
    }
    killed = tiny_config(tiny_features, tmp_path / "killed", **settings)
    log, mark = tmp_path / "log", tmp_path / "mark"
    process = start(killed, MARKED, "save", str(mark), log=log)  # saves so slowly that it lives on
    seen = tmp_path / "killed" / "checkpoints" / "step-00000005"
    assert wait_for(seen.exists, process), log.read_text()
    with pytest.raises(JaxLMError, match="another process is training here: wait for it to end"):
        train(killed, quiet)
    process.kill()
    process.wait()
    assert not (tmp_path / "killed" / "final").exists()
    whole = train(tiny_config(tiny_features, tmp_path / "whole", **settings), quiet)
    said: list[str] = []
    train(killed, said.append)
    assert any("continuing after step" in line for line in said)
    assert_same_run(str(whole), killed.run_dir)
    assert not list((tmp_path / "killed" / "checkpoints").glob("_*"))

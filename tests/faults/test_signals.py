"""SIGTERM and SIGUSR1 at the moments that hurt: saved, exit code 75, and on to the same end."""

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jax_lm.checkpoints import list_steps, newest_valid, read_best
from jax_lm.errors import SavedAndStopped
from jax_lm.evaluation.scoring.rows import RowScorer
from jax_lm.optimizers.config import OptimizerConfig
from jax_lm.training.config import CheckpointConfig, EvaluationConfig
from jax_lm.training.run import train
from tests.conftest import TinyFeatures
from tests.faults.tiny_run import MARKED, quiet, start, tiny_config, wait_for
from tests.training.same_run import assert_same_run


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
@pytest.mark.parametrize("moment", ["compilation", "evaluation", "save"])
def test_saved_and_stopped(
    moment: str,
    number: signal.Signals,
    undisturbed_run: Path,
    tiny_features: TinyFeatures,
    tmp_path: Path,
) -> None:
    config = tiny_config(tiny_features, tmp_path / "run")
    given = replace(config, compilation_cache=None) if moment == "compilation" else config
    if moment == "save":  # else another save follows at once
        given = replace(given, checkpoint=CheckpointConfig(every=15, keep=3))
    log, mark = tmp_path / "log", tmp_path / "mark"
    process = start(given, MARKED, moment, str(mark), log=log)
    assert wait_for(mark.exists, process), log.read_text()
    process.send_signal(number)
    assert process.wait(timeout=120) == 75, log.read_text()
    assert f"stopped by {number.name}; saved step" in log.read_text()
    checkpoints = tmp_path / "run" / "checkpoints"
    assert newest_valid(checkpoints, quiet) is not None
    assert not list(checkpoints.glob("_*"))
    if moment == "compilation":
        assert list_steps(checkpoints)[-1] <= 1
    if moment == "evaluation":
        assert list_steps(checkpoints)[-1] == 20
    train(config, quiet)
    assert_same_run(str(undisturbed_run), str(tmp_path / "run"))


def test_the_best_is_known_after_a_stopped_evaluation(
    tiny_features: TinyFeatures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The evaluation that a signal cut short is made up for, and its checkpoint may be the best."""
    config = tiny_config(
        tiny_features,
        tmp_path / "run",
        steps=12,
        optimizer=OptimizerConfig(learning_rate=1e-30),
        evaluation=EvaluationConfig(every=6, sample_tokens=0, max_rows=8, at_start=False),
        checkpoint=CheckpointConfig(every=6, keep=1, best="val/loss"),
    )

    def score(*args: Any, **settings: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return scored(*args, **settings)

    scored = RowScorer.score
    monkeypatch.setattr(RowScorer, "score", score)
    with pytest.raises(SavedAndStopped, match="saved step 6"):
        train(config, quiet)
    monkeypatch.undo()
    train(config, quiet)
    best = read_best(tmp_path / "run" / "checkpoints")
    assert best is not None
    assert best.step == 6  # nothing is learned at such a rate, and the first of equals is best

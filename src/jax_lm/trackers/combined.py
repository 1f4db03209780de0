"""Every tracker of a run as one, where a failing tracker never stops the run."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jax_lm.trackers.base import Histogram, Tracker
from jax_lm.trackers.console import ConsoleTracker
from jax_lm.trackers.jsonl import JsonlTracker
from jax_lm.trackers.samples import SamplesTracker
from jax_lm.trackers.tensorboard import TensorboardTracker
from jax_lm.trackers.wandb import WandbSettings, WandbTracker, require_wandb


class CombinedTracker:
    """Passes everything on; a tracker that raises is reported once on stderr, then skipped."""

    def __init__(self, trackers: Sequence[Tracker]) -> None:
        """Pass everything on to ``trackers``, in this order."""
        self._trackers = list(trackers)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Record metrics with every tracker."""
        self._each(lambda tracker: tracker.log(step, metrics))

    def sample(self, step: int, prompt: str, text: str) -> None:
        """Record a text with every tracker."""
        self._each(lambda tracker: tracker.sample(step, prompt, text))

    def histogram(self, step: int, values: Mapping[str, Histogram]) -> None:
        """Record distributions with every tracker."""
        self._each(lambda tracker: tracker.histogram(step, values))

    def close(self) -> None:
        """Close every tracker."""
        self._each(lambda tracker: tracker.close())
        self._trackers.clear()

    def _each(self, action: Callable[[Tracker], None]) -> None:
        for tracker in list(self._trackers):
            try:
                action(tracker)
            except Exception as error:
                _report(type(tracker).__name__, error)
                self._trackers.remove(tracker)


def open_trackers(
    run_dir: Path,
    *,
    total_steps: int,
    resume_step: int | None = None,
    tensorboard: bool = True,
    console: bool = True,
    wandb: WandbSettings | None = None,
    config: Mapping[str, Any] | None = None,
) -> CombinedTracker:
    """The trackers of a run directory; one that cannot be opened is reported and left out.

    Args:
        run_dir: gets ``metrics.jsonl``, ``samples/`` and ``tensorboard/``.
        total_steps: the step the run ends at, for the time left.
        resume_step: the checkpoint's step, or None for a new run.
        tensorboard: write TensorBoard event files.
        console: show progress on stderr.
        wandb: the project of Weights & Biases that the run is logged to; None: not at all.
        config: the resolved configuration, without secrets, for trackers that keep one.

    Raises:
        JaxLMError: wandb is asked for and not installed.
    """
    if wandb is not None:
        require_wandb()
    openers: dict[str, Callable[[], Tracker]] = {
        "ConsoleTracker": lambda: ConsoleTracker(total_steps, initial_step=resume_step or 0),
        "JsonlTracker": lambda: JsonlTracker(run_dir / "metrics.jsonl", resume_step=resume_step),
        "SamplesTracker": lambda: SamplesTracker(run_dir / "samples", resume_step=resume_step),
        "TensorboardTracker": lambda: TensorboardTracker(
            run_dir / "tensorboard", resume_step=resume_step
        ),
    }
    if wandb is not None:
        openers["WandbTracker"] = lambda: WandbTracker(
            run_dir, wandb, config or {}, resume_step=resume_step
        )
    left_out = {"ConsoleTracker": not console, "TensorboardTracker": not tensorboard}
    trackers: list[Tracker] = []
    for name, opener in openers.items():
        if left_out.get(name, False):
            continue
        try:
            trackers.append(opener())
        except Exception as error:
            _report(name, error)
    return CombinedTracker(trackers)


def _report(name: str, error: Exception) -> None:
    said = " ".join(str(error).split()) or type(error).__name__
    sys.stderr.write(f"jax-lm: {name} failed and is left out from here on: {said}\n")

"""Checkpoints written in the background while training goes on."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from jax_lm.checkpoints.layout import (
    Progress,
    list_steps,
    remove_checkpoint,
    remove_leftovers,
    step_directory,
)
from jax_lm.checkpoints.retention import (
    Best,
    Retention,
    best_of,
    find_best,
    remove_older,
    write_best,
)
from jax_lm.checkpoints.saving import BegunCheckpoint, begin_checkpoint, complete_checkpoint
from jax_lm.errors import JaxLMError, UsageError, nearest
from jax_lm.sharding import processes

NO_SPACE = "No space left on device"


class CheckpointWriter:
    """Saves the states of one run, one at a time, and removes those that need not be kept.

    On several processes each writes its own shards into the same directory, and the first one
    does the rest; all must call the same methods in the same order.
    """

    def __init__(
        self,
        checkpoints: Path,
        retention: Retention,
        *,
        resume_step: int | None = None,
        saved: Callable[[], None] = lambda: None,
        say: Callable[[str], None] = print,
    ) -> None:
        """Remove what killed processes left unfinished, and find the best checkpoint so far.

        Args:
            checkpoints: the directory of all checkpoints; it need not exist yet.
            retention: what is kept.
            resume_step: the step that training goes on from; None: it starts. Later checkpoints
                failed verification, or that step would not be it; they are removed.
            saved: called on another thread when a checkpoint is complete and older ones removed.
            say: receives a sentence about a save that failed, on another thread.
        """
        self._checkpoints, self._retention, self._say = checkpoints, retention, say
        self._saved, self._tell_saved = resume_step, saved
        self._thread: threading.Thread | None = None
        self._failure: JaxLMError | None = None
        processes.first_decides(lambda: self._clear(resume_step or 0))
        metric = retention.best
        self._best: Best | None = None if metric is None else find_best(checkpoints, metric)
        if self._best is not None and processes.is_first():
            write_best(checkpoints, self._best)

    def __enter__(self) -> Self:
        """The writer itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for the save under way, unless a second Ctrl-C came."""
        if not isinstance(error, KeyboardInterrupt):
            self.close()

    def improves(self, metrics: Mapping[str, float]) -> bool:
        """Whether held-out metrics beat those of the best checkpoint so far.

        Where the metric that decides is not among them, they are worth a checkpoint too: ``save``
        refuses them, and no step is lost.
        """
        metric = self._retention.best
        if metric is None or not metrics:
            return False
        if metric not in metrics:
            return True
        self._join()
        candidate = best_of(0, metric, metrics)
        return candidate is not None and candidate.is_better_than(self._best)

    def refuse_unknown_metric(self, metrics: Mapping[str, float] | None) -> None:
        """Refuse held-out metrics without the one that decides which checkpoint is the best.

        Raises:
            UsageError: naming the nearest.
        """
        metric = self._retention.best
        if metric is not None and metrics and metric not in metrics:
            raise UsageError(
                f"--checkpoint.best {metric}: there is no such metric{nearest(metric, metrics)} "
                f"(evaluations give {', '.join(sorted(metrics))})"
            )

    def save(
        self,
        state: Any,
        progress: Progress,
        config: Mapping[str, Any],
        metrics: Mapping[str, float] | None = None,
    ) -> bool:
        """Copy the state to this process's memory, and write it in the background.

        Waits for the save before it. A step that is saved already is not written again.

        Args:
            state: a dataclass or mapping of trees of arrays: ``model``, ``optimizer``, and what
                else there is. Its buffers may be given away as soon as this returns.
            progress: how far the run has come.
            config: the run's resolved configuration.
            metrics: held-out metrics of this step, where it was evaluated.

        Returns:
            False where it failed at once, which has been told.

        Raises:
            UsageError: the metric that decides is not among ``metrics``; the state is saved.
        """
        begun = self._begin(state, progress, config, metrics)
        self.refuse_unknown_metric(metrics)
        return begun

    def _begin(
        self,
        state: Any,
        progress: Progress,
        config: Mapping[str, Any],
        metrics: Mapping[str, float] | None,
    ) -> bool:
        self._join()
        if progress.step == self._saved:
            self._keep(progress.step, metrics)
            return True
        self._failure = None
        try:
            begun = begin_checkpoint(self._checkpoints, state, progress)
        except Exception as error:
            self._fail(progress.step, error)
            return False
        self._thread = threading.Thread(
            target=self._complete, args=(begun, config, metrics), name="checkpoint", daemon=True
        )
        self._thread.start()
        return True

    def wait(self) -> None:
        """Wait for the save under way.

        Raises:
            JaxLMError: the last save failed.
        """
        self._join()
        if self._failure is not None:
            raise self._failure

    def newest(self) -> Path | None:
        """The newest complete checkpoint, after the save under way."""
        self._join()
        steps = list_steps(self._checkpoints)
        return step_directory(self._checkpoints, steps[-1]) if steps else None

    def close(self) -> None:
        """Wait for the save under way; a failed one has been told."""
        self._join()

    def _clear(self, resume_step: int) -> None:
        remove_leftovers(self._checkpoints)
        for step in list_steps(self._checkpoints):
            if step > resume_step:
                remove_checkpoint(step_directory(self._checkpoints, step))

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _complete(
        self,
        begun: BegunCheckpoint,
        config: Mapping[str, Any],
        metrics: Mapping[str, float] | None,
    ) -> None:
        step = begun.progress.step
        try:
            complete_checkpoint(begun, config, metrics)
            self._saved = step
            self._keep(step, metrics)
            self._tell_saved()
        except Exception as error:
            self._fail(step, error)

    def _keep(self, step: int, metrics: Mapping[str, float] | None) -> None:
        """Call a saved step the best where it is, and remove what need not be kept."""
        candidate = best_of(step, self._retention.best, metrics)
        if candidate is not None and candidate.is_better_than(self._best):
            self._best = candidate
            if processes.is_first():
                write_best(self._checkpoints, candidate)
        if processes.is_first():
            remove_older(
                self._checkpoints,
                keep=self._retention.keep,
                keep_every=self._retention.keep_every,
                best=None if self._best is None else self._best.step,
            )

    def _fail(self, step: int, error: Exception) -> None:
        reason = reason_of(error)
        self._failure = JaxLMError(f"{self._checkpoints}: step {step} could not be saved: {reason}")
        self._failure.__cause__ = error
        self._say(f"step {step} could not be saved, training goes on: {reason}")


def reason_of(error: Exception) -> str:
    """Why a save failed, in a line; messages of the writing library fill pages."""
    text = str(error) or type(error).__name__
    if NO_SPACE in text:
        return NO_SPACE
    first = text.splitlines()[0]
    return first if len(first) <= 300 else f"{first[:300]}..."

"""Checkpoints written in the background while training goes on."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from jax_lm.checkpoints.layout import (
    Progress,
    forget_set_aside,
    list_steps,
    remove_leftovers,
    set_aside,
    step_directory,
)
from jax_lm.checkpoints.retention import (
    BEST,
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
            resume_step: the step that training goes on from; None: it starts, in a directory
                without checkpoints. Later ones failed verification, or that step would not be it:
                they are set aside as ``_step-N.damaged`` until the start after the next.
            saved: called on another thread when a checkpoint is complete and older ones removed.
            say: receives a sentence about what was set aside, a save that failed, or older
                checkpoints that could not be removed; the latter two on another thread.

        Raises:
            JaxLMError: there are checkpoints, and no step to go on from is given.
        """
        self._checkpoints, self._retention, self._say = checkpoints, retention, say
        self._saved, self._tell_saved = resume_step, saved
        self._thread: threading.Thread | None = None
        self._failure: JaxLMError | None = None
        processes.first_decides(lambda: self._clear(resume_step))
        self._best = self._find_best()
        self._named: Best | None = None
        if processes.is_first():
            self._name_best(resume_step)

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

    def _clear(self, resume_step: int | None) -> None:
        steps = list_steps(self._checkpoints)
        if steps and resume_step is None:
            raise JaxLMError(
                f"{self._checkpoints} holds checkpoints, the newest of step {steps[-1]}: go on "
                "from one of them (resume_step), or choose another directory"
            )
        remove_leftovers(self._checkpoints)
        forget_set_aside(self._checkpoints)
        for step in steps:
            if resume_step is not None and step > resume_step:
                aside = set_aside(step_directory(self._checkpoints, step))
                self._say(
                    f"step {step} lies past the step to go on from: it is set aside as {aside}, "
                    "until the start after the next"
                )

    def _find_best(self) -> Best | None:
        """As the first process sees it, so that all judge alike what is better."""
        metric = self._retention.best
        if metric is None:
            return None

        def found() -> dict[str, Any] | None:
            best = find_best(self._checkpoints, metric)
            return None if best is None else asdict(best)

        values = processes.first_decides(found)
        return None if values is None else Best(**values)

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
        except Exception as error:
            self._fail(step, error)
            return
        self._saved = step
        self._keep(step, metrics)
        self._try(step, "that could not be passed on", self._tell_saved)

    def _keep(self, step: int, metrics: Mapping[str, float] | None) -> None:
        """Call a saved step the best where it is, and remove what need not be kept."""
        candidate = best_of(step, self._retention.best, metrics)
        if candidate is not None and candidate.is_better_than(self._best):
            self._best = candidate
        if processes.is_first():
            self._name_best(step)
            self._try(step, "older ones could not be removed", self._remove_older)

    def _name_best(self, step: int | None) -> None:
        """Write ``best.json``, unless it names the best; what fails is tried at the next save."""
        best = self._best
        if best is None or best == self._named:
            return

        def name() -> None:
            write_best(self._checkpoints, best)
            self._named = best

        self._try(step, f"{BEST} could not be written", name)

    def _remove_older(self) -> None:
        remove_older(
            self._checkpoints,
            keep=self._retention.keep,
            keep_every=self._retention.keep_every,
            best=[best.step for best in (self._best, self._named) if best is not None],
        )

    def _try(self, step: int | None, failed: str, act: Callable[[], None]) -> None:
        """Do what follows a save; where it fails the save stands, and that is said."""
        try:
            act()
        except Exception as error:
            self._say(f"step {step} is saved, but {failed}: {reason_of(error)}")

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

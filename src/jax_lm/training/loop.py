"""Training itself, in the order it happens: step, log, evaluate, save."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic

import jax
import numpy as np
from jax.sharding import Mesh

from jax_lm.checkpoints import Progress, list_steps, step_directory
from jax_lm.errors import JaxLMError
from jax_lm.loading.loader import Loader
from jax_lm.optimizers import learning_rate
from jax_lm.sharding.placing import batch_sharding, put_batch
from jax_lm.trackers.base import Tracker
from jax_lm.training.config import TrainConfig
from jax_lm.training.data import TrainingData
from jax_lm.training.plan import Plan
from jax_lm.training.run_directory import RunDirectory
from jax_lm.training.signals import StopRequest
from jax_lm.training.state import TrainState
from jax_lm.training.step import StepMetrics, TrainStep
from jax_lm.training.throughput import Throughput
from jax_lm.types import Batch


@dataclass(frozen=True, kw_only=True)
class Job:
    """What stays the same from the first step to the last."""

    config: TrainConfig
    plan: Plan
    data: TrainingData
    mesh: Mesh
    train_step: TrainStep
    tracker: Tracker
    throughput: Throughput
    evaluate: Callable[[TrainState, int], None]
    """Log held-out metrics and a sample of a step, unless they already are."""
    save: Callable[[TrainState, Progress], bool]
    """Write a checkpoint; False where that failed and training may go on."""
    stop: StopRequest


def fit(job: Job, state: TrainState, progress: Progress) -> tuple[TrainState, Progress]:
    """Train from ``progress`` to the planned steps, until time is up or a signal asks to stop.

    The last step taken is always saved.

    Raises:
        JaxLMError: too many steps in a row had a loss or gradient that is not finite.
    """
    config, plan = job.config, job.plan
    minutes = float("inf") if config.max_time is None else config.max_time
    deadline = monotonic() + 60 * minutes
    previous: StepMetrics | None = None
    saved = progress.step if progress.step else None
    _evaluate(job, state, progress)
    with _open_loader(job, progress) as loader:
        batches = iter(loader)
        while progress.step < plan.steps and not job.stop and monotonic() < deadline:
            batch = next(batches)
            state, metrics = job.train_step(state, put_batch(batch, batch_sharding(job.mesh)))
            tokens = _num_tokens(batch)
            if previous is None:  # the first step is compilation, not training
                jax.block_until_ready(metrics.loss)
                job.throughput.start()
            else:
                job.throughput.count(tokens)
                _refuse_divergence(job, previous, progress, loader)
            previous = metrics
            progress = replace(
                progress,
                step=progress.step + 1,
                position=loader.position,
                tokens=progress.tokens + tokens,
            )
            if _due(progress.step, config.tracking.every, plan):
                _log(job, metrics, progress)
            if _due(progress.step, config.evaluation.every, plan):
                _evaluate(job, state, progress)
            if _due(progress.step, config.checkpoint.every, plan):
                saved = progress.step if _save(job, state, progress) else saved
        if previous is not None:
            _refuse_divergence(job, previous, progress, loader)
    if previous is not None and progress.step < plan.steps and not job.stop:  # time is up
        if not _due(progress.step, config.tracking.every, plan):
            _log(job, previous, progress)
        job.evaluate(state, progress.step)
    if saved != progress.step:
        _save(job, state, progress)
    return state, progress


def _open_loader(job: Job, progress: Progress) -> Loader:
    return Loader(
        job.data.train,
        job.data.objective,
        batch_size=job.plan.batch_size,
        seed=job.config.seed,
        position=progress.position,
        host=(jax.process_index(), jax.process_count()),
        order=job.data.order,
    )


def _num_tokens(batch: Batch) -> int:
    """Real tokens of a batch: of the input, where padding is marked, and of the output."""
    if batch.segment_ids is None:
        return int(np.count_nonzero(batch.loss_mask))
    outputs = 0 if batch.decoder_input_ids is None else np.count_nonzero(batch.loss_mask)
    return int(np.count_nonzero(batch.segment_ids) + outputs)


def _due(step: int, every: int, plan: Plan) -> bool:
    return step == plan.steps or (every > 0 and step % every == 0)


def _log(job: Job, metrics: StepMetrics, progress: Progress) -> None:
    loss, grad_norm, skipped = jax.device_get(
        (metrics.loss, metrics.grad_norm, metrics.skipped_steps)
    )
    # A skipped step does not advance the schedule.
    updates = progress.step - 1 - int(skipped)
    rate = learning_rate(job.config.optimizer, job.plan.steps, max(0, updates))
    values = {
        "train/loss": float(loss),
        "train/grad_norm": float(grad_norm),
        "train/learning_rate": float(rate),
        "train/tokens": float(progress.tokens),
        "train/skipped_steps": float(skipped),
    }
    job.tracker.log(progress.step, values | job.throughput.read())


def _evaluate(job: Job, state: TrainState, progress: Progress) -> None:
    if _due(progress.step, job.config.evaluation.every, job.plan) or progress.step == 0:
        with job.throughput.excluded():
            job.evaluate(state, progress.step)


def _save(job: Job, state: TrainState, progress: Progress) -> bool:
    with job.throughput.excluded():
        return job.save(state, progress)


def _last_checkpoint(job: Job) -> str:
    checkpoints = RunDirectory(job.config.run_dir).checkpoints
    steps = list_steps(checkpoints)
    return str(step_directory(checkpoints, steps[-1])) if steps else "the start"


def _refuse_divergence(job: Job, metrics: StepMetrics, progress: Progress, loader: Loader) -> None:
    """Look at the step before the one just dispatched, so that the device never waits for it."""
    bad_steps = int(metrics.bad_steps)
    if bad_steps < job.config.max_bad_steps:
        return
    rows = loader.rows_at(progress.position - job.plan.batch_size)
    shown = ", ".join(map(str, rows[:8])) + (", ..." if len(rows) > 8 else "")
    raise JaxLMError(
        f"step {progress.step}: loss or gradient was not finite for {bad_steps} steps in a row "
        f"(rows of the last one: {shown}); lower --optimizer.learning-rate and go on from "
        f"{_last_checkpoint(job)} with --resume auto, or start anew in another --run-dir"
    )

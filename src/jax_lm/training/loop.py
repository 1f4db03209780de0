"""Training itself, in the order it happens: step, log, evaluate, save."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import numpy as np
from jax.sharding import Mesh

from jax_lm.checkpoints import Progress
from jax_lm.errors import JaxLMError
from jax_lm.loading.loader import Loader
from jax_lm.objectives.causal_lm import causal_lm
from jax_lm.optimizers import learning_rate
from jax_lm.sharding import batch_sharding, put_batch
from jax_lm.trackers.base import Tracker
from jax_lm.training.config import TrainConfig
from jax_lm.training.data import TrainingData
from jax_lm.training.plan import Plan
from jax_lm.training.signals import StopRequest
from jax_lm.training.state import TrainState
from jax_lm.training.step import StepMetrics, TrainStep
from jax_lm.training.throughput import Throughput


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
    save: Callable[[TrainState, Progress], None]
    """Write a checkpoint."""
    stop: StopRequest


def fit(job: Job, state: TrainState, progress: Progress) -> tuple[TrainState, Progress]:
    """Train from ``progress`` to the planned steps, until time is up or a signal asks to stop.

    The last step taken is always saved.

    Raises:
        JaxLMError: too many steps in a row had a loss or gradient that is not finite.
    """
    config, plan = job.config, job.plan
    deadline = time.monotonic() + 60 * (config.max_time or float("inf"))
    previous: StepMetrics | None = None
    saved = progress.step if progress.step else None
    _evaluate(job, state, progress)
    with _open_loader(job, progress) as loader:
        batches = iter(loader)
        while progress.step < plan.steps and not job.stop and time.monotonic() < deadline:
            batch = next(batches)
            state, metrics = job.train_step(state, put_batch(batch, batch_sharding(job.mesh)))
            tokens = int(np.count_nonzero(batch.loss_mask))
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
                _save(job, state, progress)
                saved = progress.step
        if previous is not None:
            _refuse_divergence(job, previous, progress, loader)
    if saved != progress.step:
        _save(job, state, progress)
    return state, progress


def _open_loader(job: Job, progress: Progress) -> Loader:
    return Loader(
        job.data.train,
        causal_lm,
        batch_size=job.plan.batch_size,
        seed=job.config.seed,
        position=progress.position,
        host=(jax.process_index(), jax.process_count()),
    )


def _due(step: int, every: int, plan: Plan) -> bool:
    return step == plan.steps or (every > 0 and step % every == 0)


def _log(job: Job, metrics: StepMetrics, progress: Progress) -> None:
    loss, grad_norm = jax.device_get((metrics.loss, metrics.grad_norm))
    rate = learning_rate(job.config.optimizer, job.plan.steps, progress.step - 1)
    values = {
        "train/loss": float(loss),
        "train/grad_norm": float(grad_norm),
        "train/learning_rate": float(rate),
        "train/tokens": float(progress.tokens),
    }
    job.tracker.log(progress.step, values | job.throughput.read())


def _evaluate(job: Job, state: TrainState, progress: Progress) -> None:
    if _due(progress.step, job.config.evaluation.every, job.plan) or progress.step == 0:
        with job.throughput.excluded():
            job.evaluate(state, progress.step)


def _save(job: Job, state: TrainState, progress: Progress) -> None:
    with job.throughput.excluded():
        job.save(state, progress)


def _refuse_divergence(job: Job, metrics: StepMetrics, progress: Progress, loader: Loader) -> None:
    """Look at the step before the one just dispatched, so that the device never waits for it."""
    bad_steps = int(metrics.bad_steps)
    if bad_steps < job.config.max_bad_steps:
        return
    rows = loader.rows_at(progress.position - job.plan.batch_size)
    shown = ", ".join(map(str, rows[:8])) + (", ..." if len(rows) > 8 else "")
    raise JaxLMError(
        f"step {progress.step}: loss or gradient was not finite for {bad_steps} steps in a row "
        f"(rows of the last one: {shown}); lower --optimizer.learning-rate and continue from the "
        f"last checkpoint in {job.config.run_dir} with --resume auto, or start anew"
    )

"""Training itself, in the order it happens: step, log, evaluate, save."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from time import monotonic, perf_counter

import jax
from jax.sharding import Mesh

from jax_lm.checkpoints.layout import Progress
from jax_lm.checkpoints.writer import CheckpointWriter
from jax_lm.errors import JaxLMError
from jax_lm.loading.loader import Loader
from jax_lm.optimizers.schedule import learning_rate
from jax_lm.sharding.placing import batch_sharding, own_rows, put_batch
from jax_lm.trackers.base import Tracker
from jax_lm.training.beginning.recorded import recorded
from jax_lm.training.config import TrainConfig
from jax_lm.training.data import TrainingData
from jax_lm.training.evaluating import Evaluator
from jax_lm.training.freed_memory import give_back_freed_memory
from jax_lm.training.hosts.agreement import Agreement, Ending
from jax_lm.training.measuring.device_memory import memory_gb
from jax_lm.training.measuring.histograms import Histograms
from jax_lm.training.measuring.profile import Profile
from jax_lm.training.measuring.throughput import Throughput
from jax_lm.training.measuring.token_count import make_token_count
from jax_lm.training.plan import Plan
from jax_lm.training.run_directory import RunDirectory
from jax_lm.training.stall import Watchdog
from jax_lm.training.state import TrainState
from jax_lm.training.step import StepMetrics, TrainStep
from jax_lm.types import Batch


@dataclass(frozen=True, kw_only=True)
class Job:
    """What stays the same from the first step to the last."""

    config: TrainConfig
    run: RunDirectory
    plan: Plan
    data: TrainingData
    mesh: Mesh
    train_step: TrainStep
    tracker: Tracker
    throughput: Throughput
    evaluator: Evaluator
    histograms: Histograms
    """Distributions of the gradients of the step to come."""
    writer: CheckpointWriter
    agreement: Agreement
    """Whether to stop."""
    watchdog: Watchdog
    """Is told what the loop does."""
    changed: Callable[[], None]
    """Is told that the run directory has more in it."""
    say: Callable[[str], None]
    began: float
    """When the run started, of ``perf_counter``."""


def fit(job: Job, state: TrainState, progress: Progress) -> tuple[TrainState, Progress]:
    """Train from ``progress`` to the planned steps, until time is up or a signal asks to stop.

    The last step taken is always saved.

    Raises:
        JaxLMError: too many steps in a row had a loss or gradient that is not finite.
    """
    config, plan = job.config, job.plan
    deadline = monotonic() + 60 * (float("inf") if config.max_time is None else config.max_time)
    previous: StepMetrics | None = None
    ending: Ending | None = None
    held_out = _first_evaluation(job, state, progress)
    if job.writer.improves(held_out):
        _save(job, state, progress, held_out)
    profile = Profile(job.run.path / "profile", config.profile, job.say)
    sharding, count_tokens = batch_sharding(job.mesh), make_token_count()
    with _open_loader(job, progress) as loader, closing(profile):
        while progress.step < plan.steps and (ending := _ending(job, deadline)) is None:
            step = progress.step + 1
            job.watchdog.step(step)
            if (batch := _next_batch(job, loader)) is None:
                break
            placed = put_batch(batch, sharding, plan.batch_size)
            tokens = count_tokens(batch, placed)
            if config.tracking.histograms and step % config.tracking.histograms == 0:
                _histograms(job, state, placed, step)
            if previous is None:
                state, metrics = _first_step(job, state, placed)
            else:
                with job.watchdog.phase("computing"), profile.step(step, state):
                    state, metrics = job.train_step(state, placed)
                    job.throughput.count(int(tokens))
                    _refuse_divergence(job, previous, progress, loader)
                profile.after(state)
            previous = metrics
            progress = replace(
                progress,
                step=step,
                position=loader.position,
                tokens=progress.tokens + int(tokens),
                batch_size=plan.batch_size,
            )
            held_out = _after_step(job, state, progress, metrics)
        if previous is not None:
            _refuse_divergence(job, previous, progress, loader)
    if ending == "time" and previous is not None:
        if not _due(progress.step, config.tracking.every, plan):
            _log(job, previous, progress)
        held_out = _evaluate(job, state, progress) or held_out
    _save(job, state, progress, held_out)
    return state, progress


def _ending(job: Job, deadline: float) -> Ending | None:
    """Why to take no further step, if so; asked by all processes before every step."""
    return job.agreement(time_is_up=monotonic() >= deadline)


def _next_batch(job: Job, loader: Loader) -> Batch | None:
    """None where a signal came while there was nothing to train on.

    Several processes cannot agree on that, for some may have their rows: they wait on.
    """
    with job.watchdog.phase("waiting for data"), job.throughput.waiting():
        return loader.next(until=lambda: job.agreement.stopped)


def _after_step(
    job: Job, state: TrainState, progress: Progress, metrics: StepMetrics
) -> Mapping[str, float]:
    """Log, evaluate and save, each where it is due; gives the held-out metrics."""
    config, step, held_out = job.config, progress.step, dict[str, float]()
    if _due(step, config.tracking.every, job.plan):
        _log(job, metrics, progress)
    if _due(step, config.evaluation.every, job.plan):
        held_out |= _evaluate(job, state, progress)
    if _due(step, config.checkpoint.every, job.plan) or job.writer.improves(held_out):
        _save(job, state, progress, held_out)
    return held_out


def _first_step(job: Job, state: TrainState, batch: Batch) -> tuple[TrainState, StepMetrics]:
    """The first step is compilation, not training: its time is told and counts nowhere."""
    called = perf_counter()
    with job.watchdog.phase("compiling the training step"):
        state, metrics = job.train_step(state, batch)
    compiled = perf_counter() - called
    give_back_freed_memory()
    with job.watchdog.phase("computing"):
        jax.block_until_ready(metrics.loss)
    job.say(
        f"started   first step after {perf_counter() - job.began:.1f} s "
        f"(compiled in {compiled:.1f} s)"
    )
    job.throughput.start()
    return state, metrics


def _open_loader(job: Job, progress: Progress) -> Loader:
    return Loader(
        job.data.train,
        job.data.objective,
        batch_size=job.plan.batch_size,
        seed=job.config.seed,
        position=progress.position,
        own_rows=own_rows(batch_sharding(job.mesh), job.plan.batch_size),
        order=job.data.order,
    )


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
        "train/memory_gb": memory_gb(),
    }
    if job.config.dtype == "float16":
        values["train/loss_scale"] = float(metrics.loss_scale)
    job.tracker.log(progress.step, values | job.throughput.read())


def _histograms(job: Job, state: TrainState, batch: Batch, step: int) -> None:
    with _apart(job, state, "counting gradients"):
        job.tracker.histogram(step, job.histograms(state, batch))


def _first_evaluation(job: Job, state: TrainState, progress: Progress) -> Mapping[str, float]:
    """Before the first step where asked for, or where a killed run left one out."""
    settings, step = job.config.evaluation, progress.step
    due = _due(step, settings.every, job.plan) if step else settings.at_start
    return _evaluate(job, state, progress) if due else {}


def _evaluate(job: Job, state: TrainState, progress: Progress) -> Mapping[str, float]:
    with _apart(job, state, "evaluating"):
        held_out = job.evaluator(state.evaluated, progress.step)
    job.changed()
    return held_out


def _save(job: Job, state: TrainState, progress: Progress, held_out: Mapping[str, float]) -> None:
    with _apart(job, state, "saving"):
        job.writer.save(state, progress, recorded(job.config), held_out)


@contextmanager
def _apart(job: Job, state: TrainState, name: str) -> Iterator[None]:
    """What is no step: its seconds count nowhere, those of a step still under way do."""
    with job.watchdog.phase("computing"):
        jax.block_until_ready(state)
    with job.throughput.excluded(), job.watchdog.phase(name):
        yield


def _refuse_divergence(job: Job, metrics: StepMetrics, progress: Progress, loader: Loader) -> None:
    """Look at the step before the one just dispatched, so that the device never waits for it."""
    bad_steps = int(metrics.bad_steps)
    if bad_steps < job.config.max_bad_steps:
        return
    rows = loader.rows_at(progress.position - job.plan.batch_size)
    shown = ", ".join(map(str, rows[:8])) + (", ..." if len(rows) > 8 else "")
    raise JaxLMError(
        f"step {progress.step}: loss or gradient was not finite for {bad_steps} steps in a row "
        f"(rows of the last one: {shown}); go on from {job.writer.newest() or 'the start'} with "
        "--resume auto, --allow-change optimizer and a lower --optimizer.learning-rate"
    )

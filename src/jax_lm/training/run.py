"""A whole run: open the data, start or continue, train, export, report."""

import logging
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from time import perf_counter

from jax.sharding import Mesh

from jax_lm.checkpoints.hosts import first_decides, in_turn, is_first
from jax_lm.checkpoints.layout import Progress
from jax_lm.checkpoints.writer import CheckpointWriter
from jax_lm.models.low_rank import merged
from jax_lm.optimizers.build import make_optimizer
from jax_lm.sharding.mesh import make_mesh, row_shards
from jax_lm.sharding.placing import gathered
from jax_lm.sharding.rules import on_mesh
from jax_lm.trackers.base import Tracker
from jax_lm.trackers.combined import CombinedTracker, open_trackers
from jax_lm.trackers.console import say_line
from jax_lm.trackers.environment import describe
from jax_lm.trackers.wandb import WandbSettings
from jax_lm.training.compilation import use_compilation_cache
from jax_lm.training.config import TrackingConfig, TrainConfig
from jax_lm.training.data import TrainingData, open_data
from jax_lm.training.evaluating import Evaluator
from jax_lm.training.finish import finish
from jax_lm.training.hosts.agreement import Agreement
from jax_lm.training.loop import Job, fit
from jax_lm.training.measuring.histograms import make_histograms
from jax_lm.training.measuring.throughput import Throughput, flops_per_token, peak_flops
from jax_lm.training.memory.out_of_memory import out_of_memory_told
from jax_lm.training.plan import Plan, make_plan
from jax_lm.training.recorded import recorded
from jax_lm.training.remote import kept_copy
from jax_lm.training.resuming import refuse_unknown_keys, resumed_state, resumption
from jax_lm.training.run_directory import (
    RunDirectory,
    find_checkpoint,
    open_run_directory,
)
from jax_lm.training.signals import stop_on_signal
from jax_lm.training.stall import Watchdog
from jax_lm.training.starting import (
    abstract_state,
    first_state,
    keys_of,
    shardings_of,
    starting_weights,
)
from jax_lm.training.step import make_train_step
from jax_lm.training.summary import summarise

Say = Callable[[str], None]


def train(config: TrainConfig, say: Say = say_line) -> Path:
    """Train a model and export it.

    Of several processes (`jax.distributed`) all must call this with the same configuration; the
    first one alone prints, and writes what is one for all.

    Args:
        config: the run; ``config.model.vocab_size`` may be None.
        say: receives what a person should know, line by line, in the first process.

    Returns:
        The run directory; of one on an object store, the working directory on this machine.

    Raises:
        JaxLMError: bad input, or a run that failed.
        SavedAndStopped: SIGTERM or SIGUSR1 came; the run is saved.
        StoppedByUser: Ctrl-C; the run is saved.
    """
    began = perf_counter()
    say = say if is_first() else _silent
    refuse_unknown_keys(config)
    run = open_run_directory(config.run_dir)
    with run.locked():
        use_compilation_cache(config.compilation_cache, say)
        copy = kept_copy(run.path, run.url, config.checkpoint, resume=config.resume, say=say)
        with copy as changed:
            return _train(run, config, began, changed, say)


def _train(
    run: RunDirectory, config: TrainConfig, began: float, changed: Callable[[], None], say: Say
) -> Path:
    """The story of a run whose directory is locked; ``changed`` is called when files have."""
    mesh = make_mesh(config.mesh)
    with (
        stop_on_signal() as stop,
        _logged(say),
        on_mesh(mesh, config.mesh),
        out_of_memory_told() as memory,
    ):
        agreement = Agreement(stop, mesh)
        checkpoint = find_checkpoint(run, resume=config.resume, say=say)
        config, initial = starting_weights(config, checkpoint, mesh, say)
        opened = config
        data, config = in_turn(lambda: open_data(opened, say))
        plan = make_plan(config, rows=len(data.train), row_shards=row_shards(mesh))
        memory.of(config, mesh, plan.batch_size)
        optimizer = make_optimizer(config.optimizer, plan.steps)
        like = abstract_state(config, optimizer, mesh)
        if checkpoint is None:
            state = first_state(config, optimizer, like, initial)
            progress = Progress(step=0, position=0, tokens=0, data=data.train.fingerprint)
        else:
            found = resumption(
                checkpoint,
                recorded(config),
                data=data.train.fingerprint,
                batch_size=plan.batch_size,
                allowed=config.allow_change,
            )
            state = resumed_state(found, config, optimizer, like, say)
            progress = found.progress
        for line in summarise(config, plan, data, mesh, progress):
            say(line)
        logged = first_decides(
            lambda: run.evaluated_steps(up_to=progress.step) if checkpoint else ()
        )
        first_decides(lambda: _describe_run(run, config, data))
        with (
            closing(_trackers(run, config, plan, progress if checkpoint else None)) as tracker,
            Watchdog(config.stall_minutes) as watchdog,
            CheckpointWriter(
                run.checkpoints,
                config.checkpoint,
                resume_step=progress.step if checkpoint else None,
                saved=changed,
                say=say,
            ) as writer,
        ):
            evaluator = Evaluator(
                config,
                data,
                mesh,
                tracker,
                agreement,
                batch_size=plan.batch_size,
                logged_steps=logged,
                alive=watchdog.alive,
            )
            job = Job(
                config=config,
                run=run,
                plan=plan,
                data=data,
                mesh=mesh,
                train_step=make_train_step(
                    optimizer, keys_of(config).dropout, config, shardings_of(like)
                ),
                tracker=tracker,
                throughput=_throughput(config, data, mesh),
                evaluate=lambda state, step: _then(changed, evaluator(state.evaluated, step)),
                histograms=make_histograms(config, keys_of(config).dropout),
                improves=writer.improves,
                save=lambda state, progress, held_out: writer.save(
                    state, progress, recorded(config), held_out
                ),
                agreement=agreement,
                watchdog=watchdog,
                say=say,
                began=began,
            )
            state, progress = fit(job, state, progress)
            agreement.settle()
            if stop:
                writer.wait()
    if stop:
        raise stop.error(
            f"saved step {progress.step} in {run.shown}; continue with the same command and "
            "--resume auto"
        )
    with on_mesh(mesh, config.mesh):
        model = gathered(merged(state.evaluated), mesh, keep=is_first())
    first_decides(lambda: finish(run, config, plan, data, model, progress, say))
    return run.path


def _then(act: Callable[[], None], held_out: Mapping[str, float]) -> Mapping[str, float]:
    act()
    return held_out


def _silent(_: str) -> None:
    """The processes after the first one print nothing."""


@contextmanager
def _logged(say: Say) -> Iterator[None]:
    """Tell what is logged while a run is built and compiled, such as the attention kernel."""
    logger, handler = logging.getLogger("jax_lm"), logging.Handler()
    handler.emit = lambda record: say(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    before, logger.propagate = logger.level, False  # libraries print what reaches the root
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        logger.propagate = True


def _describe_run(run: RunDirectory, config: TrainConfig, data: TrainingData) -> None:
    run.path.mkdir(parents=True, exist_ok=True)
    run.write_json("config.json", recorded(config))
    run.write_json("environment.json", describe())
    shutil.rmtree(run.tokenizer, ignore_errors=True)
    data.tokenizer.save(run.tokenizer)


def _trackers(
    run: RunDirectory, config: TrainConfig, plan: Plan, resumed: Progress | None
) -> Tracker:
    if not is_first():
        return CombinedTracker([])
    return open_trackers(
        run.path,
        total_steps=plan.steps,
        resume_step=None if resumed is None else resumed.step,
        tensorboard=config.tracking.tensorboard,
        wandb=_wandb(config.tracking),
        config=recorded(config) | {"environment": describe()},
    )


def _wandb(tracking: TrackingConfig) -> WandbSettings | None:
    if tracking.wandb_project is None:
        return None
    return WandbSettings(
        project=tracking.wandb_project, entity=tracking.wandb_entity, mode=tracking.wandb_mode
    )


def _throughput(config: TrainConfig, data: TrainingData, mesh: Mesh) -> Throughput:
    peak = peak_flops(mesh.devices.flat[0].device_kind, config.peak_tflops)
    flops = flops_per_token(config.model, config.sequence_length, data.target_length)
    return Throughput(flops, None if peak is None else peak * mesh.size)

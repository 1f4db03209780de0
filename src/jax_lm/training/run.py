"""A whole run: open the data, start or continue, train, export, report."""

import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from jax.sharding import Mesh

from jax_lm.checkpoints.layout import Progress
from jax_lm.checkpoints.writer import CheckpointWriter
from jax_lm.models.low_rank import merged
from jax_lm.sharding.mesh import make_mesh
from jax_lm.sharding.placing import gathered
from jax_lm.sharding.processes import first_decides, is_first
from jax_lm.sharding.rules import on_mesh
from jax_lm.trackers.console import say_line
from jax_lm.trackers.environment import describe
from jax_lm.training.beginning.begin import Beginning, begin
from jax_lm.training.beginning.recorded import recorded
from jax_lm.training.beginning.resuming import refuse_unknown_keys
from jax_lm.training.beginning.state import (
    keys_of,
)
from jax_lm.training.compilation import use_compilation_cache
from jax_lm.training.config import TrainConfig
from jax_lm.training.data import TrainingData
from jax_lm.training.evaluating import Evaluator
from jax_lm.training.finish import finish
from jax_lm.training.hosts.agreement import Agreement
from jax_lm.training.loop import Job, fit
from jax_lm.training.measuring.histograms import make_histograms
from jax_lm.training.measuring.throughput import Throughput, flops_per_token, peak_flops
from jax_lm.training.memory.out_of_memory import out_of_memory_told
from jax_lm.training.remote import kept_copy
from jax_lm.training.run_directory import (
    RunDirectory,
    open_run_directory,
)
from jax_lm.training.signals import StopRequest, stop_on_signal
from jax_lm.training.stall import Watchdog
from jax_lm.training.state import TrainState
from jax_lm.training.step import make_train_step
from jax_lm.training.summary import described_weights, summarise
from jax_lm.training.tracking import run_trackers

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
    with run.locked(), stop_on_signal() as stop:
        use_compilation_cache(config.compilation_cache, say)
        copy = kept_copy(run.path, run.url, config.checkpoint, resume=config.resume, say=say)
        with copy as changed:
            return _train(run, config, stop, _Heard(changed, say, began))


class _Heard(NamedTuple):
    """Who hears of a run, and since when it runs."""

    changed: Callable[[], None]
    """Is told that the run directory has more in it."""
    say: Say
    began: float


def _train(run: RunDirectory, config: TrainConfig, stop: StopRequest, heard: _Heard) -> Path:
    """The story of a run whose directory is locked."""
    mesh, say = make_mesh(config.mesh), heard.say
    with _logged(say), on_mesh(mesh, config.mesh), out_of_memory_told() as memory:
        start = begin(run, config, mesh, memory, say)
        for line in summarise(start.config, start.plan, start.data, mesh, start.progress):
            say(line)
        if start.config.lora.rank or start.config.optimizer.freeze:
            say(described_weights(start.config, start.state.model))
        first_decides(lambda: _describe_run(run, start.config, start.data))
        state, progress = _fit(run, start, mesh, stop, heard)
        # From here on a signal has nothing left to save: what is under way is finished.
        model = gathered(merged(state.evaluated), mesh, keep=is_first())
        first_decides(
            lambda: finish(run, start.config, start.plan, start.data, model, progress, say)
        )
    return run.path


def _fit(
    run: RunDirectory, start: Beginning, mesh: Mesh, stop: StopRequest, heard: _Heard
) -> tuple[TrainState, Progress]:
    """Train with all that runs beside the steps, and leave it when that is done.

    Raises:
        SavedAndStopped: or StoppedByUser; the last step is saved.
    """
    config, data, plan = start.config, start.data, start.plan
    keys, resumed_at = keys_of(config), start.progress if start.resumed else None
    agreement = Agreement(stop, mesh)
    with (
        closing(run_trackers(run, config, plan, start)) as tracker,
        Watchdog(config.stall_minutes) as watchdog,
        CheckpointWriter(
            run.checkpoints,
            config.checkpoint,
            resume_step=None if resumed_at is None else resumed_at.step,
            saved=heard.changed,
            say=heard.say,
        ) as writer,
    ):
        evaluator = Evaluator(
            config,
            data,
            mesh,
            tracker,
            agreement,
            batch_size=plan.batch_size,
            logged_steps=start.logged_steps,
            alive=watchdog.alive,
        )
        job = Job(
            config=config,
            run=run,
            plan=plan,
            data=data,
            mesh=mesh,
            train_step=make_train_step(start.optimizer, keys.dropout, config, start.shardings),
            tracker=tracker,
            throughput=_throughput(config, data, mesh),
            evaluator=evaluator,
            histograms=make_histograms(config, keys.dropout),
            writer=writer,
            agreement=agreement,
            watchdog=watchdog,
            changed=heard.changed,
            say=heard.say,
            began=heard.began,
        )
        state, progress = fit(job, start.state, start.progress)
        agreement.settle()
        if agreement.stopped:
            writer.wait()
            raise stop.error(
                f"saved step {progress.step} in {run.shown}; continue with the same command and "
                "--resume auto"
            )
    return state, progress


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


def _throughput(config: TrainConfig, data: TrainingData, mesh: Mesh) -> Throughput:
    peak = peak_flops(mesh.devices.flat[0].device_kind, config.peak_tflops)
    flops = flops_per_token(config.model, config.sequence_length, data.target_length)
    return Throughput(flops, None if peak is None else peak * mesh.size)

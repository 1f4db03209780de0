"""A whole run: open the data, start or continue, train, export, report."""

import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import jax
import optax
from jax.sharding import Mesh

from jax_lm.checkpoints import Progress, read_progress, restore_arrays, save_checkpoint
from jax_lm.dataclass_json import to_json
from jax_lm.errors import JaxLMError
from jax_lm.models.forward import Model
from jax_lm.optimizers import make_optimizer
from jax_lm.sharding.mesh import make_mesh
from jax_lm.sharding.placing import replicated
from jax_lm.trackers.base import Tracker
from jax_lm.trackers.combined import open_trackers
from jax_lm.trackers.environment import describe
from jax_lm.training.config import TrainConfig
from jax_lm.training.data import TrainingData, open_data
from jax_lm.training.evaluating import Evaluator
from jax_lm.training.finish import finish
from jax_lm.training.loop import Job, fit
from jax_lm.training.plan import Plan, make_plan
from jax_lm.training.run_directory import (
    RunDirectory,
    check_same_batch,
    check_same_run,
    find_checkpoint,
)
from jax_lm.training.signals import StopRequest, stop_on_signal
from jax_lm.training.starting import starting_weights
from jax_lm.training.state import TrainState, init_state
from jax_lm.training.step import make_train_step
from jax_lm.training.summary import summarise
from jax_lm.training.throughput import Throughput, flops_per_token, peak_flops

Say = Callable[[str], None]


def train(config: TrainConfig, say: Say = print) -> Path:
    """Train a model and export it.

    Args:
        config: the run; ``config.model.vocab_size`` may be None.
        say: receives what a person should know, line by line.

    Returns:
        The run directory.

    Raises:
        JaxLMError: bad input, or a run that failed.
        SavedAndStopped: SIGTERM or SIGUSR1 came; the run is saved.
        StoppedByUser: Ctrl-C; the run is saved.
    """
    if jax.process_count() > 1:
        raise JaxLMError("training on several hosts is not supported: start one process")
    run = RunDirectory(config.run_dir)
    with stop_on_signal() as stop, _logged(say):
        checkpoint = find_checkpoint(run, resume=config.resume, say=say)
        config, initial = starting_weights(config, checkpoint, say)
        data, config = open_data(config, say)
        mesh = make_mesh(config.mesh)
        plan = make_plan(config, rows=len(data.train), num_devices=mesh.size)
        optimizer = make_optimizer(config.optimizer, plan.steps)
        state, progress = _state(config, data, optimizer, mesh, checkpoint, initial)
        check_same_batch(progress, plan.batch_size)
        for line in summarise(config, plan, data, mesh, progress):
            say(line)
        logged = run.evaluated_steps(up_to=progress.step) if checkpoint else ()
        _describe_run(run, config, data)
        with closing(_trackers(run, config, plan, progress if checkpoint else None)) as tracker:
            evaluator = Evaluator(
                config, data, mesh, tracker, stop, batch_size=plan.batch_size, logged_steps=logged
            )
            job = Job(
                config=config,
                plan=plan,
                data=data,
                mesh=mesh,
                train_step=make_train_step(optimizer, _keys(config)[1], config),
                tracker=tracker,
                throughput=_throughput(config, data, mesh),
                evaluate=lambda state, step: evaluator(state.model, step),
                save=_saver(run, config, stop, say),
                stop=stop,
            )
            state, progress = fit(job, state, progress)
    if stop:
        raise stop.error(
            f"saved step {progress.step} in {run.path}; continue with the same command and "
            "--resume auto"
        )
    finish(run, config, plan, data, state.model, progress, say)
    return run.path


@contextmanager
def _logged(say: Say) -> Iterator[None]:
    """Tell what is logged while a run is built and compiled, such as the attention kernel."""
    logger, handler = logging.getLogger("jax_lm"), logging.Handler()
    handler.emit = lambda record: say(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    before = logger.level
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def _state(
    config: TrainConfig,
    data: TrainingData,
    optimizer: optax.GradientTransformation,
    mesh: Mesh,
    checkpoint: Path | None,
    initial: Model | None,
) -> tuple[TrainState, Progress]:
    """Random or given weights at step 0, or what a checkpoint holds."""
    init_key, _ = _keys(config)

    def build(key: jax.Array) -> TrainState:
        return init_state(key, config.model, optimizer)

    if checkpoint is None:
        state = jax.jit(build, out_shardings=replicated(mesh))(init_key)
        if initial is not None:
            state = TrainState(jax.device_put(initial, replicated(mesh)), state.optimizer)
        return state, Progress(step=0, position=0, tokens=0, data=data.train.fingerprint)
    check_same_run(checkpoint, to_json(config), data.train.fingerprint)
    like = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=replicated(mesh)),
        jax.eval_shape(build, init_key),
    )
    model = restore_arrays(checkpoint / "model", like.model)
    state = TrainState(model, restore_arrays(checkpoint / "optimizer", like.optimizer))
    return state, read_progress(checkpoint)


def _keys(config: TrainConfig) -> tuple[jax.Array, jax.Array]:
    """Keys of the initial weights and of dropout."""
    init_key, dropout_key = jax.random.split(jax.random.key(config.seed))
    return init_key, dropout_key


def _describe_run(run: RunDirectory, config: TrainConfig, data: TrainingData) -> None:
    run.path.mkdir(parents=True, exist_ok=True)
    run.write_json("config.json", to_json(config))
    run.write_json("environment.json", describe())
    shutil.rmtree(run.tokenizer, ignore_errors=True)
    data.tokenizer.save(run.tokenizer)


def _trackers(
    run: RunDirectory, config: TrainConfig, plan: Plan, resumed: Progress | None
) -> Tracker:
    return open_trackers(
        run.path,
        total_steps=plan.steps,
        resume_step=None if resumed is None else resumed.step,
        tensorboard=config.tracking.tensorboard,
    )


def _throughput(config: TrainConfig, data: TrainingData, mesh: Mesh) -> Throughput:
    peak = peak_flops(mesh.devices.flat[0].device_kind, config.peak_tflops)
    flops = flops_per_token(config.model, config.sequence_length, data.target_length)
    return Throughput(flops, None if peak is None else peak * mesh.size)


def _saver(
    run: RunDirectory, config: TrainConfig, stop: StopRequest, say: Say
) -> Callable[[TrainState, Progress], bool]:
    """Saves a checkpoint; a failed save is told, and ends only a run that was asked to stop."""

    def save(state: TrainState, progress: Progress) -> bool:
        try:
            save_checkpoint(
                run.checkpoints,
                model=state.model,
                optimizer=state.optimizer,
                progress=progress,
                config=to_json(config),
                keep=config.checkpoint.keep,
            )
        except Exception as error:
            if stop:
                raise JaxLMError(f"{run.checkpoints}: could not save: {error}") from error
            say(f"step {progress.step} could not be saved, training goes on: {error}")
            return False
        return True

    return save

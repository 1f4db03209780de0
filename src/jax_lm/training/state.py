"""What a training step reads and writes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, Key, PyTree

from jax_lm.models.forward import Model
from jax_lm.models.low_rank import with_low_rank
from jax_lm.models.registry import init_model
from jax_lm.training.config import TrainConfig
from jax_lm.training.gradient import trainable_parts
from jax_lm.training.loss_scale import LossScale


class OptimizerState(eqx.Module):
    """Everything but the model that a step changes."""

    optax: optax.OptState
    step: Int[Array, ""]
    """Steps taken, skipped ones included."""
    bad_steps: Int[Array, ""]
    """Steps in a row, up to this one, that were skipped for a non-finite loss or gradient."""
    skipped_steps: Int[Array, ""]
    """All steps that were skipped."""
    loss_scale: LossScale | None
    """Of a computation in float16."""


class TrainState(eqx.Module):
    """Model and optimizer state, float32; a checkpoint has a directory for each that there is."""

    model: Model
    optimizer: OptimizerState
    average: PyTree | None
    """Moving average of the weights that are trained, where the run keeps one."""

    @property
    def evaluated(self) -> Model:
        """The weights that are evaluated and exported: the average, where there is one."""
        if self.average is None:
            return self.model
        model: Model = eqx.combine(self.average, self.model)
        return model


def init_state(
    key: Key[Array, ""], config: TrainConfig, optimizer: optax.GradientTransformation
) -> TrainState:
    """Random weights and an optimizer that has seen nothing."""
    return state_of(init_model(key, config.model), key, config, optimizer)


def state_of(
    model: Model,
    key: Key[Array, ""],
    config: TrainConfig,
    optimizer: optax.GradientTransformation,
) -> TrainState:
    """The weights of ``model`` and an optimizer that has seen nothing.

    Args:
        model: without low-rank factors, which are added where the run trains such.
        key: of the factors.
        config: of the run.
        optimizer: as ``make_optimizer`` gives it.
    """
    if config.lora.rank:
        model = with_low_rank(jax.random.fold_in(key, 1), model, config.lora)
    average = first_average(model, config) if config.optimizer.ema_decay else None
    return TrainState(model, optimizer_state_of(model, config, optimizer), average)


def first_average(model: Model, config: TrainConfig) -> PyTree:
    """What an average of the weights begins as: those that are trained, None for the others."""
    return jax.tree.map(jnp.copy, trainable_parts(model, config)[0])


def optimizer_state_of(
    model: Model, config: TrainConfig, optimizer: optax.GradientTransformation
) -> OptimizerState:
    """The state of an optimizer that has seen nothing.

    Args:
        model: what it is to train, with low-rank factors where the run trains such.
        config: of the run.
        optimizer: as ``make_optimizer`` gives it.
    """
    trained, _ = trainable_parts(model, config)
    return OptimizerState(
        optax=optimizer.init(trained),
        step=jnp.zeros((), jnp.int32),
        bad_steps=jnp.zeros((), jnp.int32),
        skipped_steps=jnp.zeros((), jnp.int32),
        loss_scale=LossScale.init() if config.dtype == "float16" else None,
    )

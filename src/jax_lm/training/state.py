"""What a training step reads and writes."""

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, Key

from jax_lm.models.base import ModelConfig
from jax_lm.models.forward import Model
from jax_lm.models.registry import init_model


class OptimizerState(eqx.Module):
    """Everything but the model that a step changes."""

    optax: optax.OptState
    step: Int[Array, ""]
    """Steps taken, skipped ones included."""
    bad_steps: Int[Array, ""]
    """Steps in a row, up to this one, that were skipped for a non-finite loss or gradient."""
    skipped_steps: Int[Array, ""]
    """All steps that were skipped."""


class TrainState(eqx.Module):
    """Model and optimizer state, float32."""

    model: Model
    optimizer: OptimizerState


def init_state(
    key: Key[Array, ""], config: ModelConfig, optimizer: optax.GradientTransformation
) -> TrainState:
    """Random weights and an optimizer that has seen nothing."""
    model = init_model(key, config)
    zero = jnp.zeros((), jnp.int32)
    return TrainState(model, OptimizerState(optimizer.init(model), zero, zero, zero))

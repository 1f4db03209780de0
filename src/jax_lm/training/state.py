"""What a training step reads and writes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, Key

from jax_lm.models.gpt2 import GPT2, GPT2Config


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

    model: GPT2
    optimizer: OptimizerState


def init_state(
    key: Key[Array, ""], config: GPT2Config, optimizer: optax.GradientTransformation
) -> TrainState:
    """Random weights and an optimizer that has seen nothing."""
    model = GPT2.init(key, config)
    zero = jnp.zeros((), jnp.int32)
    return TrainState(model, OptimizerState(optimizer.init(model), zero, zero, zero))


def count_parameters(config: GPT2Config) -> int:
    """Number of parameters, tied ones once."""
    shapes = jax.eval_shape(lambda key: GPT2.init(key, config), jax.random.key(0))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))

"""One optimizer step: a pure function, compiled once."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Key, PyTree

from jax_lm.losses import token_losses, weighted_loss
from jax_lm.models.gpt2 import GPT2
from jax_lm.training.state import OptimizerState, TrainState
from jax_lm.types import Batch


class StepMetrics(NamedTuple):
    """What a step reports, on the device until it is asked for."""

    loss: Float[Array, ""]
    """Nats a token over the global batch."""
    grad_norm: Float[Array, ""]
    """Global norm before clipping."""
    bad_steps: Array
    """Non-finite steps in a row, up to this one."""
    skipped_steps: Array
    """All non-finite steps so far."""


TrainStep = Callable[[TrainState, Batch], tuple[TrainState, StepMetrics]]


def make_train_step(
    optimizer: optax.GradientTransformation, key: Key[Array, ""], *, dtype: str, remat: bool
) -> TrainStep:
    """Compile the step; the state it is given is donated.

    Args:
        optimizer: what turns gradients into updates.
        key: dropout of step s uses this key folded with s, so a resumed run draws the same.
        dtype: of the computation; parameters and loss stay float32.
        remat: recompute activations in the backward pass.
    """

    def loss(model: GPT2, batch: Batch, key: Key[Array, ""] | None) -> Float[Array, ""]:
        compute = jax.tree.map(lambda leaf: leaf.astype(dtype), model)
        hidden = compute(batch.input_ids, key=key, remat=remat)
        losses, _ = token_losses(hidden, compute.unembedding, jnp.asarray(batch.targets))
        return weighted_loss(losses, jnp.asarray(batch.loss_mask))

    def step(state: TrainState, batch: Batch) -> tuple[TrainState, StepMetrics]:
        before = state.optimizer
        step_key = jax.random.fold_in(key, before.step) if state.model.config.dropout else None
        value, gradient = jax.value_and_grad(loss)(state.model, batch, step_key)
        norm = optax.tree.norm(gradient)
        finite = jnp.isfinite(value) & jnp.isfinite(norm)
        updates, optax_state = optimizer.update(gradient, before.optax, state.model)
        model = optax.apply_updates(state.model, updates)
        bad_steps = jnp.where(finite, 0, before.bad_steps + 1)
        skipped = before.skipped_steps + jnp.where(finite, 0, 1)
        after = TrainState(
            _keep_if(finite, model, state.model),
            OptimizerState(
                _keep_if(finite, optax_state, before.optax), before.step + 1, bad_steps, skipped
            ),
        )
        return after, StepMetrics(value, norm, bad_steps, skipped)

    return jax.jit(step, donate_argnums=0)


def _keep_if(condition: Bool[Array, ""], new: PyTree, old: PyTree) -> PyTree:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)

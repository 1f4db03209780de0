"""One optimizer step: a pure function, compiled once."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Key, PyTree

from jax_lm.losses import mean_loss, token_shares
from jax_lm.models.forward import Model, forward
from jax_lm.models.precision import in_dtype
from jax_lm.training.config import TrainConfig
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
    optimizer: optax.GradientTransformation, key: Key[Array, ""], config: TrainConfig
) -> TrainStep:
    """Compile the step; the state it is given is donated.

    Args:
        optimizer: what turns gradients into updates.
        key: dropout of step s uses this key folded with s, so a resumed run draws the same.
        config: dtype of the computation (parameters and loss stay float32), remat, the loss.
    """

    def loss(
        model: Model, batch: Batch, key: Key[Array, ""] | None
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """What is minimised, and the cross-entropy in it, which is reported."""
        compute = in_dtype(model, config.dtype)
        hidden = forward(compute, batch, key=key, remat=config.remat != "none")
        return mean_loss(
            hidden,
            compute.unembedding,
            jnp.asarray(batch.targets),
            token_shares(jnp.asarray(batch.loss_mask), config.loss_reduction),
            label_smoothing=config.label_smoothing,
            z_loss=config.z_loss,
        )

    def step(state: TrainState, batch: Batch) -> tuple[TrainState, StepMetrics]:
        before = state.optimizer
        step_key = jax.random.fold_in(key, before.step) if state.model.config.drops else None
        (minimised, value), gradient = jax.value_and_grad(loss, has_aux=True)(
            state.model, batch, step_key
        )
        norm = optax.tree.norm(gradient)
        finite = jnp.isfinite(minimised) & jnp.isfinite(norm)
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

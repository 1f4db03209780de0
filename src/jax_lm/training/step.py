"""One optimizer step: a pure function, compiled once."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Key, PyTree

from jax_lm.models.forward import Model
from jax_lm.optimizers.averaging import averaged
from jax_lm.training.config import TrainConfig
from jax_lm.training.gradient import make_gradient, trainable_parts
from jax_lm.training.state import OptimizerState, TrainState
from jax_lm.types import Batch


class StepMetrics(NamedTuple):
    """What a step reports, on the device until it is asked for."""

    loss: Float[Array, ""]
    """Nats a token over the global batch."""
    grad_norm: Float[Array, ""]
    """Global norm of what is trained, before clipping."""
    bad_steps: Array
    """Non-finite steps in a row, up to this one; a float16 overflow that a smaller loss scale may
    mend does not count."""
    skipped_steps: Array
    """All steps so far whose gradient was not finite."""
    loss_scale: Float[Array, ""]
    """What the loss was multiplied by, in float16; else 1."""


TrainStep = Callable[[TrainState, Batch], tuple[TrainState, StepMetrics]]


def make_train_step(
    optimizer: optax.GradientTransformation,
    key: Key[Array, ""],
    config: TrainConfig,
    shardings: Any = None,
) -> TrainStep:
    """Compile the step; the state it is given is donated.

    Args:
        optimizer: what turns gradients into updates.
        key: dropout of step s uses this key folded with s, so a resumed run draws the same.
        config: the computation, the loss, what is frozen.
        shardings: of the state, as ``state_shardings`` gives them; None: as it comes.
    """
    gradient = make_gradient(config, key)

    def step(state: TrainState, batch: Batch) -> tuple[TrainState, StepMetrics]:
        before = state.optimizer
        scale = jnp.float32(1.0) if before.loss_scale is None else before.loss_scale.value
        gradients, losses = gradient(state.model, batch, before.step, scale)
        if before.loss_scale is not None:
            gradients = jax.tree.map(lambda leaf: leaf / scale, gradients)
        norm = optax.tree.norm(gradients)
        finite = jnp.isfinite(losses.minimised) & jnp.isfinite(norm)
        model, optax_state, average = _updated(state, gradients)
        after = OptimizerState(
            _keep_if(finite, optax_state, before.optax),
            before.step + 1,
            _bad_steps(before, finite, losses.minimised),
            before.skipped_steps + jnp.where(finite, 0, 1),
            None if before.loss_scale is None else before.loss_scale.after(finite),
        )
        changed = TrainState(
            _keep_if(finite, model, state.model), after, _keep_if(finite, average, state.average)
        )
        metrics = StepMetrics(
            losses.cross_entropy / scale, norm, after.bad_steps, after.skipped_steps, scale
        )
        return changed, metrics

    def _updated(state: TrainState, gradients: PyTree) -> tuple[Model, PyTree, PyTree | None]:
        """Model, optimizer state and averaged model after an update."""
        before = state.optimizer
        trained, frozen = trainable_parts(state.model, config)
        updates, optax_state = optimizer.update(gradients, before.optax, trained)
        trained = optax.apply_updates(trained, updates)
        model: Model = eqx.combine(trained, frozen)
        if state.average is None:
            return model, optax_state, None
        decay = config.optimizer.ema_decay
        updates_taken = before.step + 1 - before.skipped_steps
        return model, optax_state, averaged(state.average, trained, decay, updates_taken)

    where: dict[str, Any] = {} if shardings is None else {"out_shardings": (shardings, None)}
    compiled: TrainStep = jax.jit(step, donate_argnums=0, **where)
    return compiled


def _bad_steps(
    before: OptimizerState, finite: Bool[Array, ""], minimised: Float[Array, ""]
) -> Array:
    """Steps in a row that no smaller loss scale would have saved."""
    counted = ~finite
    if before.loss_scale is not None:
        counted = counted & (before.loss_scale.is_least | ~jnp.isfinite(minimised))
    return jnp.where(finite, 0, before.bad_steps + counted)


def _keep_if(condition: Bool[Array, ""], new: PyTree, old: PyTree) -> PyTree:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)

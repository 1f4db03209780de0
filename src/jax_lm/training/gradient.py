"""The gradient of a batch: exact over any number of parts that it is computed in."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from jax_lm.losses import mean_loss, token_shares
from jax_lm.models.forward import Model, forward
from jax_lm.models.layers.dropout import DropoutKey
from jax_lm.models.layers.placement import placed, placed_parameters
from jax_lm.models.precision import in_dtype
from jax_lm.optimizers.trainable import drop_frozen_layers, trainable_mask
from jax_lm.training.config import TrainConfig
from jax_lm.types import Batch


class Part(NamedTuple):
    """Some rows of a batch."""

    batch: Batch
    shares: Float[Array, "batch seq"]
    """What part each token has in the mean over the whole batch."""
    rows: Int[Array, "batch"]
    """The rows' numbers in the whole batch."""


class Losses(NamedTuple):
    """Of a whole batch."""

    minimised: Float[Array, ""]
    """With label smoothing and z-loss, and times the loss scale."""
    cross_entropy: Float[Array, ""]
    """Nats a token; times the loss scale too."""


Gradient = Callable[[Model, Batch, Int[Array, ""], Float[Array, ""]], tuple[PyTree, Losses]]


def trainable_parts(model: Model, config: TrainConfig) -> tuple[PyTree, PyTree]:
    """The model with None in the place of what is frozen, and of what is trained."""
    mask = trainable_mask(model, config.optimizer.freeze, lora=config.lora.rank > 0)
    trained, frozen = eqx.partition(model, mask)
    return trained, frozen


def make_gradient(config: TrainConfig, key: Key[Array, ""]) -> Gradient:
    """What computes the gradient of a batch for the trained parameters.

    Every token's part in the loss is known before the first part of the batch is computed, so the
    parts' gradients add up to that of the whole: no mean of means.

    Args:
        config: dtype of the computation, remat, the loss, the parts, what is frozen.
        key: dropout of a row depends on it, the step and the row's number alone.

    Returns:
        A function of (model, batch, step, loss scale) to the gradient, times the scale, with None
        for what is frozen (and -0.0 for frozen layers of a stack), and the losses.
    """

    def loss(
        trained: PyTree, frozen: PyTree, part: Part, step: Int[Array, ""]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        compute = in_dtype(eqx.combine(trained, frozen), config.dtype)
        drops = DropoutKey(jax.random.fold_in(key, step), part.rows) if _drops(compute) else None
        hidden = forward(compute, part.batch, key=drops, remat=config.remat)
        return mean_loss(
            hidden,
            compute.unembedding,
            jnp.asarray(part.batch.targets),
            part.shares,
            label_smoothing=config.label_smoothing,
            z_loss=config.z_loss,
        )

    def gradient(
        model: Model, batch: Batch, step: Int[Array, ""], scale: Float[Array, ""]
    ) -> tuple[PyTree, Losses]:
        trained, frozen = trainable_parts(model, config)
        shares = scale * token_shares(jnp.asarray(batch.loss_mask), config.loss_reduction)
        whole = Part(batch, shares, jnp.arange(shares.shape[0]))

        def of_part(part: Part) -> tuple[PyTree, Losses]:
            (minimised, value), found = jax.value_and_grad(loss, has_aux=True)(
                trained, frozen, part, step
            )
            return placed_parameters(found), Losses(minimised, value)

        if config.accumulation_steps == 1:
            found, losses = of_part(whole)
        else:
            found, losses = _summed(of_part, _parts(whole, config.accumulation_steps))
        return drop_frozen_layers(found, config.optimizer.freeze), losses

    return gradient


def _drops(model: Model) -> bool:
    return bool(model.config.drops)


def _parts(whole: Part, count: int) -> Part:
    """``[batch ...]`` to ``[count batch/count ...]``.

    Part m takes every ``count``-th row from m on: each device cuts the rows that it has.
    """

    def cut(array: Any) -> Array:
        array = jnp.asarray(array)
        parts = array.reshape(-1, count, *array.shape[1:]).swapaxes(0, 1)
        return placed(parts, " ".join(["part", "batch", *["whole"] * (parts.ndim - 2)]))

    parts: Part = jax.tree.map(cut, whole)
    return parts


def _summed(function: Callable[[Part], Any], parts: Part) -> Any:
    """The sum of ``function`` over the leading axis of ``parts``, one at a time."""

    def add(sums: Any, part: Part) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, sums, function(part)), None

    first = jax.tree.map(lambda leaf: leaf[0], parts)
    zeros = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(function, first)
    )
    gradient, losses = zeros
    sums, _ = jax.lax.scan(add, (placed_parameters(gradient), losses), parts)
    return sums

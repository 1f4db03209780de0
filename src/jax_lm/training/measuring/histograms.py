"""Distributions of gradients, on request: another gradient of the batch, and nothing else."""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from jax_lm.models.layers.placement import placed
from jax_lm.optimizers.patterns import dotted
from jax_lm.trackers.base import Histogram
from jax_lm.training.config import TrainConfig
from jax_lm.training.gradient import make_gradient
from jax_lm.training.state import TrainState
from jax_lm.types import Batch

BINS = 64
LEAST_RANGE = 1e-12
"""Of a gradient that is zero throughout."""

Histograms = Callable[[TrainState, Batch], Mapping[str, Histogram]]


def make_histograms(config: TrainConfig, key: Key[Array, ""]) -> Histograms:
    """What counts the gradients of the step to come, parameter by parameter.

    All layers of a stack are counted together, in bins of equal width that are symmetric around 0.
    A gradient that is not finite is left out.

    Args:
        config: of the run.
        key: of dropout, as the training step has it.
    """
    gradient = make_gradient(config, key)

    @jax.jit
    def counted(state: TrainState, batch: Batch) -> dict[str, tuple[Array, Array]]:
        before = state.optimizer
        scale = jnp.float32(1.0) if before.loss_scale is None else before.loss_scale.value
        gradients, _ = gradient(state.model, batch, before.step, scale)
        return {
            f"gradients/{dotted(path)}": _counts(leaf / scale)
            for path, leaf in jax.tree_util.tree_leaves_with_path(gradients)
        }

    def histograms(state: TrainState, batch: Batch) -> Mapping[str, Histogram]:
        found = jax.device_get(counted(state, batch))
        return {
            name: Histogram(
                counts.astype(np.int64), np.linspace(-limit, limit, BINS + 1, dtype=np.float64)
            )
            for name, (counts, limit) in found.items()
            if np.isfinite(limit)
        }

    return histograms


def _counts(values: Float[Array, "*shape"]) -> tuple[Int[Array, "bins"], Float[Array, ""]]:
    """Counts in bins from -limit to limit, and that limit: the largest magnitude."""
    limit = jnp.maximum(LEAST_RANGE, jnp.abs(values).max().astype(jnp.float32))
    bins = jnp.floor((values / limit + 1) * (BINS / 2)).astype(jnp.int32)
    counts = jnp.zeros(BINS, jnp.uint32).at[jnp.clip(bins, 0, BINS - 1).ravel()].add(1)
    return placed(counts, "whole"), limit

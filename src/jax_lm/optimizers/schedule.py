"""The learning rate of every step: a pure function of the configuration and the step."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jax_lm.optimizers.config import OptimizerConfig


def learning_rate(
    config: OptimizerConfig, total_steps: int, step: Int[Array, ""] | Float[Array, ""] | int
) -> Float[Array, ""]:
    """Learning rate of a step (from 0): linear warmup, then the schedule to ``total_steps``.

    With w steps of warmup, step s below w has ``peak * (s + 1) / (w + 1)``; step w has the peak.

    - cosine (Loshchilov and Hutter 2017, arXiv:1608.03983) and linear reach the end at
      ``total_steps``, one step after the last.
    - inverse-sqrt (Vaswani et al. 2017, arXiv:1706.03762; T5's, which holds where those warm up):
      ``peak * sqrt((w + 1) / (s + 1))``, whatever ``total_steps``.
    - wsd, warmup, stable, decay (Hu et al. 2024, arXiv:2404.06395): the peak until the last
      ``decay_steps``, then linear, the form that Hägele et al. 2024 (arXiv:2405.18392) study.
    """
    peak, end, warmup = config.learning_rate, config.final_learning_rate, config.warmup_steps
    step = jnp.asarray(step, jnp.float32)
    if config.schedule == "constant":
        after = jnp.full((), peak)
    elif config.schedule == "inverse-sqrt":
        after = jnp.maximum(end, peak * jnp.sqrt((warmup + 1) / (step + 1)))
    else:
        after = end + (peak - end) * _remaining(config, total_steps, step)
    return jnp.where(step < warmup, peak * (step + 1) / (warmup + 1), after)


def _remaining(
    config: OptimizerConfig, total_steps: int, step: Float[Array, ""]
) -> Float[Array, ""]:
    """What is left, from 1 where the decay starts to 0 at ``total_steps``."""
    start = config.warmup_steps
    if config.schedule == "wsd":
        steps = max(1, total_steps // 10) if config.decay_steps is None else config.decay_steps
        start = max(start, total_steps - steps)
    progress = jnp.clip((step - start) / max(1, total_steps - start), 0.0, 1.0)
    if config.schedule == "cosine":
        return 0.5 * (1.0 + jnp.cos(math.pi * progress))
    return 1.0 - progress

"""Optimizer and learning-rate schedule from a configuration."""

import math
from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """AdamW with linear warmup, a decay of the learning rate, and gradient clipping."""

    learning_rate: float = 6e-4
    """Peak learning rate."""
    min_learning_rate: float = 6e-5
    """Learning rate at the end of the schedule."""
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    """Decay after warmup, over the remaining steps."""
    warmup_steps: int = 0
    """Steps of linear warmup: step i (from 0) uses learning_rate * (i + 1) / (warmup_steps + 1)."""
    beta1: float = 0.9
    """Decay of the gradient's mean."""
    beta2: float = 0.95
    """Decay of the gradient's square."""
    epsilon: float = 1e-8
    """Added to the root of the squared gradient."""
    weight_decay: float = 0.1
    """Decoupled weight decay; biases and norm scales are never decayed."""
    decay_embeddings: bool = True
    """Decay token and position embeddings too."""
    clip_norm: float = 1.0
    """Largest global norm of the gradient; 0 does not clip."""


def learning_rate(
    config: OptimizerConfig, total_steps: int, step: Float[Array, ""] | int
) -> Float[Array, ""]:
    """Learning rate of a step (from 0): linear warmup, then the schedule to ``total_steps``."""
    warmup = config.warmup_steps
    step = jnp.asarray(step, jnp.float32)
    progress = jnp.clip((step - warmup) / max(1, total_steps - warmup), 0.0, 1.0)
    fraction = {
        "cosine": 0.5 * (1.0 + jnp.cos(math.pi * progress)),
        "linear": 1.0 - progress,
        "constant": jnp.ones(()),
    }[config.schedule]
    decayed = config.min_learning_rate + fraction * (
        config.learning_rate - config.min_learning_rate
    )
    warming = config.learning_rate * (step + 1) / (warmup + 1)
    return jnp.where(step < warmup, warming, decayed)


def make_optimizer(config: OptimizerConfig, total_steps: int) -> optax.GradientTransformation:
    """Clip by global norm, then AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101)."""
    adamw = optax.adamw(
        lambda step: learning_rate(config, total_steps, step),
        b1=config.beta1,
        b2=config.beta2,
        eps=config.epsilon,
        weight_decay=config.weight_decay,
        mask=lambda params: decay_mask(params, embeddings=config.decay_embeddings),
    )
    if config.clip_norm == 0:
        return adamw
    return optax.chain(optax.clip_by_global_norm(config.clip_norm), adamw)


def decay_mask(params: PyTree, *, embeddings: bool) -> PyTree:
    """True for the leaves that weight decay applies to, decided by their path.

    Biases and norm scales are not decayed; embeddings where ``embeddings`` says so.
    """

    def decays(path: tuple[object, ...], _leaf: object) -> bool:
        name = jax.tree_util.keystr(path).rsplit(".", 1)[-1]
        if name.endswith("_embedding"):
            return embeddings
        return not name.endswith(("bias", "scale"))

    return jax.tree_util.tree_map_with_path(decays, params)

"""A model without layers to compute: one parameter of every kind that optimizers tell apart."""

from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from jax_lm.optimizers.build import make_optimizer
from jax_lm.optimizers.config import OptimizerConfig

NAMES = ("adamw", "adafactor", "lion", "sgd", "muon")
TOTAL_STEPS = 100


class SmallAttention(eqx.Module):
    query_weight: Float[Array, "embed heads head_dim"]
    query_bias: Float[Array, "heads head_dim"]
    output_weight: Float[Array, "heads head_dim embed"]


class SmallBlock(eqx.Module):
    attention: SmallAttention
    up_weight: Float[Array, "embed mlp"]
    norm_scale: Float[Array, " embed"]


class SmallModel(eqx.Module):
    token_embedding: Float[Array, "vocab embed"]
    blocks: SmallBlock


def small_model(
    seed: int = 0, *, layers: int = 3, embed: int = 128, heads: int = 2, mlp: int = 130
) -> Any:
    """Normal numbers; matrices are just large enough for Adafactor to factor them."""
    random = np.random.default_rng(seed)

    def array(*shape: int) -> Array:
        return jnp.asarray(random.normal(0, 0.1, shape), jnp.float32)

    head_dim = embed // heads
    return SmallModel(
        array(7, embed),
        SmallBlock(
            SmallAttention(
                array(layers, embed, heads, head_dim),
                array(layers, heads, head_dim),
                array(layers, heads, head_dim, embed),
            ),
            array(layers, embed, mlp),
            array(layers, embed),
        ),
    )


def of_layer(model: Any, layer: int) -> Any:
    """The model with that layer alone."""
    blocks = jax.tree.map(lambda leaf: leaf[layer : layer + 1], model.blocks)
    return SmallModel(model.token_embedding, blocks)


def take_steps(
    config: OptimizerConfig, model: Any, gradients: list[Any]
) -> tuple[Any, optax.OptState]:
    """The model after one step for each gradient, and the optimizer's state."""
    init, step = _compiled(config)
    state = init(model)
    for gradient in gradients:
        model, state = step(model, state, gradient)
    return model, state


@lru_cache(maxsize=16)
def _compiled(config: OptimizerConfig) -> tuple[Any, Any]:
    optimizer = make_optimizer(config, TOTAL_STEPS)

    def step(model: Any, state: Any, gradient: Any) -> Any:
        updates, state = optimizer.update(gradient, state, model)
        return optax.apply_updates(model, updates), state

    return optimizer.init, jax.jit(step)


def named_leaves(tree: Any) -> dict[str, Any]:
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }

"""The optimizer of a configuration."""

import jax.numpy as jnp
import optax

from jax_lm.optimizers.adafactor import scale_by_adafactor
from jax_lm.optimizers.config import OptimizerConfig
from jax_lm.optimizers.masks import decay_mask
from jax_lm.optimizers.muon import scale_by_muon_or_adam
from jax_lm.optimizers.schedule import learning_rate
from jax_lm.optimizers.trainable import without_frozen_layers

SGD_MOMENTUM = 0.9
MUON_MOMENTUM = 0.95


def make_optimizer(config: OptimizerConfig, total_steps: int) -> optax.GradientTransformation:
    """Clip by global norm, find a direction, decay the weights, multiply by the learning rate.

    Decay is decoupled from the gradient for every optimizer (Loshchilov and Hutter 2019,
    arXiv:1711.05101). Leaves that are None are not there. Arrays of the state lie under a name of
    the stage and a path that ends in their parameter's, or are scalars.

    Args:
        config: which optimizer, and its numbers.
        total_steps: where the schedule ends.
    """
    stages = {
        "gradient": without_frozen_layers(config.freeze),
        "clip": optax.clip_by_global_norm(config.clip_norm),
        "direction": _direction(config),
        "decay": optax.add_decayed_weights(
            config.weight_decay,
            mask=lambda params: decay_mask(params, embeddings=config.decay_embeddings),
        ),
        "rate": optax.scale_by_learning_rate(lambda step: learning_rate(config, total_steps, step)),
        "update": without_frozen_layers(config.freeze),
    }
    if config.clip_norm == 0:
        del stages["clip"]
    if not config.freeze:
        del stages["gradient"], stages["update"]
    return optax.named_chain(*stages.items())


def _direction(config: OptimizerConfig) -> optax.GradientTransformation:
    """What is multiplied by the learning rate, before weight decay."""
    dtype = jnp.dtype(config.moment_dtype)
    adam = optax.scale_by_adam(config.beta1, config.beta2, config.epsilon, mu_dtype=dtype)
    match config.name:
        case "adamw":
            return adam
        case "adafactor":
            return scale_by_adafactor()
        case "lion":
            # Chen et al. 2023, arXiv:2302.06675.
            return optax.scale_by_lion(config.beta1, config.beta2, mu_dtype=dtype)
        case "sgd":
            momentum = SGD_MOMENTUM if config.momentum is None else config.momentum
            if momentum == 0:
                return optax.identity()
            return optax.trace(momentum, bool(config.nesterov), accumulator_dtype=dtype)
        case "muon":
            return scale_by_muon_or_adam(
                momentum=MUON_MOMENTUM if config.momentum is None else config.momentum,
                nesterov=config.nesterov is not False,
                adam=adam,
                epsilon=config.epsilon,
                moment_dtype=dtype,
            )

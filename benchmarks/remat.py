"""Memory and time of a gradient under each remat policy.

    python benchmarks/remat.py [--repetitions N]

A small GPT-2 on whatever device JAX finds: bytes that XLA plans for intermediate values, and
seconds of a forward and backward pass. The policies' passes take turns, so that a busy machine
slows all of them alike.
"""

import argparse
import statistics
import time
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
from recording import record

from jax_lm.losses import mean_loss, token_shares
from jax_lm.models.forward import forward
from jax_lm.models.gpt2 import GPT2Config
from jax_lm.models.layers.dropout import DropoutKey
from jax_lm.models.layers.stack import RematPolicy
from jax_lm.models.registry import init_model
from jax_lm.types import Batch

SMALL = {"vocab_size": 8192, "context_length": 512, "num_layers": 4, "num_heads": 6}
SMALL |= {"embed_dim": 384, "dropout": 0.1}
BATCH = 2


def main() -> None:
    """Measure every policy and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    repetitions = parser.parse_args().repetitions
    model = init_model(jax.random.key(0), GPT2Config(**SMALL))
    policies = get_args(RematPolicy)
    passes = {policy: compiled(model, policy) for policy in policies}
    seconds = {policy: [timed(passes[policy], model)] for policy in policies}
    for _ in range(repetitions):
        for policy in policies:
            seconds[policy].append(timed(passes[policy], model))
    runs = [
        {
            "policy": policy,
            "temporary_bytes": passes[policy].memory_analysis().temp_size_in_bytes,
            "seconds": statistics.median(seconds[policy][1:]),
            "times_none": statistics.median(
                mine / plain
                for mine, plain in zip(seconds[policy][1:], seconds["none"][1:], strict=True)
            ),
        }
        for policy in policies
    ]
    record("remat", {"model": SMALL, "batch": BATCH, "runs": runs})


def compiled(model: Any, policy: RematPolicy) -> Any:
    """The gradient of the loss, dropout on, ready to run."""
    ids = np.random.default_rng(0).integers(0, SMALL["vocab_size"], (BATCH, 513), np.int32)
    batch = Batch(
        input_ids=jnp.asarray(ids[:, :-1]),
        targets=jnp.asarray(ids[:, 1:]),
        loss_mask=jnp.ones((BATCH, 512)),
    )

    def loss(model: Any, key: Any) -> Any:
        hidden = forward(model, batch, key=DropoutKey(key, jnp.arange(BATCH)), remat=policy)
        shares = token_shares(batch.loss_mask, "token")
        return mean_loss(hidden, model.unembedding, batch.targets, shares)[0]

    return jax.jit(jax.grad(loss)).lower(model, jax.random.key(1)).compile()


def timed(gradient: Any, model: Any) -> float:
    """Seconds of one pass."""
    started = time.perf_counter()
    jax.block_until_ready(gradient(model, jax.random.key(1)))
    return time.perf_counter() - started


if __name__ == "__main__":
    main()

"""The one loss: weighted cross-entropy of tokens, computed a block of tokens at a time."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

KERNEL = "XLA (blocks of tokens, logits recomputed in the backward pass)"
"""What computes the loss; shown by ``jax-lm doctor``."""

MAX_BLOCK_LOGITS = 1 << 22
"""Logits held at once (16 MiB in float32): the memory of the loss, whatever the batch."""


def token_losses(
    hidden: Float[Array, "batch seq embed"],
    unembedding: Float[Array, "vocab embed"],
    targets: Int[Array, "batch seq"],
) -> tuple[Float[Array, "batch seq"], Bool[Array, "batch seq"]]:
    """-log p of every target in nats, and whether the target was the most probable token.

    Logits and softmax are float32 whatever the dtype of ``hidden``.
    """
    batch, seq, embed = hidden.shape
    blocks, length = _blocks(batch, seq, unembedding.shape[0])
    # Blocks run along the sequence: the batch stays one axis, split over the devices as it is.
    padding = blocks * length - seq
    padded = jnp.pad(hidden, ((0, 0), (0, padding), (0, 0)))
    padded_targets = jnp.pad(targets, ((0, 0), (0, padding)))

    @jax.checkpoint
    def one_block(
        hidden: Float[Array, "batch block embed"], targets: Int[Array, "batch block"]
    ) -> tuple[Float[Array, "batch block"], Bool[Array, "batch block"]]:
        logits = jnp.einsum("bte,ve->btv", hidden, unembedding, preferred_element_type=jnp.float32)
        chosen = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
        best = logits.argmax(axis=-1)
        return jax.nn.logsumexp(logits, axis=-1) - chosen, best == targets

    if blocks == 1:
        whole: tuple[Array, Array] = one_block(hidden, targets)
        return whole
    xs = (
        padded.reshape(batch, blocks, length, embed).swapaxes(0, 1),
        padded_targets.reshape(batch, blocks, length).swapaxes(0, 1),
    )
    losses, correct = jax.lax.map(lambda block: one_block(*block), xs)
    return (
        losses.swapaxes(0, 1).reshape(batch, blocks * length)[:, :seq],
        correct.swapaxes(0, 1).reshape(batch, blocks * length)[:, :seq],
    )


def weighted_loss(
    losses: Float[Array, "batch seq"], weights: Float[Array, "batch seq"]
) -> Float[Array, ""]:
    """sum(weight * loss) / sum(weight), in nats; 0 where no target has weight."""
    return (losses * weights).sum() / jnp.maximum(weights.sum(), jnp.finfo(jnp.float32).tiny)


def _blocks(batch: int, seq: int, vocab: int) -> tuple[int, int]:
    """Number and length of the blocks a sequence is cut into, so that logits stay in bounds."""
    length = max(1, min(seq, MAX_BLOCK_LOGITS // (batch * vocab)))
    return -(-seq // length), length

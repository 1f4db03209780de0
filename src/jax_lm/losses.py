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
    num_tokens, vocab = batch * seq, unembedding.shape[0]
    num_blocks = _num_blocks(num_tokens, vocab)
    block = (num_blocks, num_tokens // num_blocks)
    hidden_blocks = hidden.reshape(*block, embed)
    target_blocks = targets.reshape(block)

    @jax.checkpoint
    def one_block(
        hidden: Float[Array, "block embed"], targets: Int[Array, "block"]
    ) -> tuple[Float[Array, "block"], Bool[Array, "block"]]:
        logits = jnp.einsum("ne,ve->nv", hidden, unembedding, preferred_element_type=jnp.float32)
        chosen = jnp.take_along_axis(logits, targets[:, None], axis=-1)[:, 0]
        best = logits.argmax(axis=-1)
        return jax.nn.logsumexp(logits, axis=-1) - chosen, best == targets

    if num_blocks == 1:
        losses, correct = one_block(hidden_blocks[0], target_blocks[0])
    else:
        losses, correct = jax.lax.map(lambda xs: one_block(*xs), (hidden_blocks, target_blocks))
    return losses.reshape(batch, seq), correct.reshape(batch, seq)


def weighted_loss(
    losses: Float[Array, "batch seq"], weights: Float[Array, "batch seq"]
) -> Float[Array, ""]:
    """sum(weight * loss) / sum(weight), in nats; 0 where no target has weight."""
    return (losses * weights).sum() / jnp.maximum(weights.sum(), jnp.finfo(jnp.float32).tiny)


def _num_blocks(num_tokens: int, vocab: int) -> int:
    """The smallest divisor of ``num_tokens`` that keeps a block's logits within the bound."""
    wanted = -(-num_tokens * vocab // MAX_BLOCK_LOGITS)
    divisors = (count for count in range(wanted, num_tokens) if num_tokens % count == 0)
    return next(divisors, num_tokens)

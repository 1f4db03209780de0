"""The one loss: weighted cross-entropy of tokens, computed a block of tokens at a time.

``token_losses`` scores every token alone; ``mean_loss`` is what training minimises: the same
numbers, reduced, with gradients computed along with them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jax_lm.models.base import Unembedding
from jax_lm.models.layers.placement import num_parts, placed

KERNEL = "XLA (blocks of tokens; training computes gradients with the loss, logits once)"
"""What computes the loss; shown by ``jax-lm doctor``."""

MAX_BLOCK_LOGITS = {"cpu": 1 << 22}
"""Logits a device holds at once (16 MiB in float32): the memory of the loss, whatever the batch."""

ACCELERATOR_BLOCK_LOGITS = 1 << 26
"""The same where matrix units want larger blocks."""

_backend: ContextVar[str | None] = ContextVar("backend", default=None)

Reduction = Literal["token", "sample"]
"""``token``: sum(weight * loss) / sum(weight). ``sample``: that of each row, then the mean over the
rows that have weight."""


@contextmanager
def blocks_for(backend: str | None) -> Iterator[None]:
    """Inside, blocks are as large as this backend wants them; None: the one that JAX has here."""
    token = _backend.set(backend)
    try:
        yield
    finally:
        _backend.reset(token)


class TokenLosses(NamedTuple):
    """What is known of every target, in nats."""

    losses: Float[Array, "batch seq"]
    """-log p of the target."""
    correct: Bool[Array, "batch seq"]
    """Whether the target was the most probable token."""
    minimised: Float[Array, "batch seq"]
    """What is minimised: the cross-entropy, with label smoothing and z-loss where asked for."""


class Extras(NamedTuple):
    """What is added to the cross-entropy."""

    label_smoothing: float = 0.0
    """Part of each target's probability that is spread evenly over all ids (Szegedy et al. 2016,
    arXiv:1512.00567)."""
    z_loss: float = 0.0
    """Weight of log(Z)^2, Z the softmax's normaliser, which keeps logits from drifting (Chowdhery
    et al. 2022, arXiv:2204.02311)."""


def token_losses(
    hidden: Float[Array, "batch seq embed"],
    unembedding: Unembedding,
    targets: Int[Array, "batch seq"],
    *,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
) -> TokenLosses:
    """Score every target.

    Logits and softmax are float32 whatever the dtype of ``hidden``; ids beyond the vocabulary,
    which only pad the output matrix, have no part in them.
    """
    extras = Extras(label_smoothing, z_loss)

    @jax.checkpoint
    def one_block(
        hidden: Float[Array, "batch block embed"], targets: Int[Array, "batch block"]
    ) -> TokenLosses:
        logits = placed(unembedding.logits(hidden), "batch seq vocab")
        return _scored(logits, targets, unembedding.vocab_size, extras)[0]

    split = _split(targets.shape[0], targets.shape[1], unembedding.weight.shape[0])
    losses: TokenLosses = jax.lax.map(lambda block: one_block(*block), split.cut((hidden, targets)))
    joined: TokenLosses = split.join(losses)
    return joined


def token_shares(
    weights: Float[Array, "batch seq"], reduction: Reduction = "token"
) -> Float[Array, "batch seq"]:
    """What part each token has in the mean; they sum to 1, or to 0 where nothing has weight."""
    tiny = jnp.finfo(jnp.float32).tiny
    if reduction == "token":
        return weights / jnp.maximum(weights.sum(), tiny)
    of_row = weights.sum(axis=1, keepdims=True)
    rows = (of_row > 0).sum()
    return weights / jnp.maximum(of_row, tiny) / jnp.maximum(rows, 1)


def mean_loss(
    hidden: Float[Array, "batch seq embed"],
    unembedding: Unembedding,
    targets: Int[Array, "batch seq"],
    shares: Float[Array, "batch seq"],
    *,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """sum(share * objective) and sum(share * cross-entropy), of which the first has a gradient.

    The gradient is computed with the loss, while a block's logits are at hand: three matrix
    products where recomputing the logits takes four, and no more memory.

    Args:
        hidden: final hidden states.
        unembedding: the output matrix.
        targets: the token each position should predict.
        shares: of each token in the mean, as ``token_shares`` gives them.
        label_smoothing: see ``Extras``.
        z_loss: see ``Extras``.
    """
    hidden, targets, shares = map(_apart, (hidden, targets, shares))
    return _fused(hidden, unembedding, targets, shares, Extras(label_smoothing, z_loss))


def _apart(array: Array) -> Array:
    """``[batch seq ...]`` with positions that lie on other devices as rows of their own.

    Blocks along the sequence then never mix what several devices hold.
    """
    batch, seq, *rest = array.shape
    parts = num_parts("seq", seq)
    rows = array.reshape(batch, parts, seq // parts, *rest).swapaxes(0, 1)
    rows = rows.reshape(parts * batch, seq // parts, *rest)
    return placed(rows, " ".join(["tokens", "whole", *["whole"] * len(rest)]))


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def _fused(
    hidden: Float[Array, "batch seq embed"],
    unembedding: Unembedding,
    targets: Int[Array, "batch seq"],
    shares: Float[Array, "batch seq"],
    extras: Extras,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    losses = token_losses(hidden, unembedding, targets, **extras._asdict())
    return (losses.minimised * shares).sum(), (losses.losses * shares).sum()


def _fused_forward(
    hidden: Float[Array, "batch seq embed"],
    unembedding: Unembedding,
    targets: Int[Array, "batch seq"],
    shares: Float[Array, "batch seq"],
    extras: Extras,
) -> tuple[tuple[Array, Array], tuple[Array, Unembedding]]:
    """The loss, and its gradients for ``hidden`` and ``unembedding``."""
    vocab_size = unembedding.vocab_size
    weight = placed(unembedding.weight, "vocab whole")  # gathered once, not at every block
    whole = Unembedding(weight, unembedding.bias, vocab_size)
    parts = num_parts("tokens", targets.shape[0])

    def one_block(
        sums: tuple[Array, Array | None], block: tuple[Array, Array, Array]
    ) -> tuple[tuple[Array, Array | None], tuple[Array, Array, Array]]:
        hidden, targets, shares = block
        logits = placed(whole.logits(hidden), "tokens whole vocab")
        losses, log_z = _scored(logits, targets, vocab_size, extras)
        slope = shares[..., None] * _slope(logits, log_z, targets, vocab_size, extras)
        low = slope.astype(hidden.dtype)
        # Each part of the rows has a sum of its own, so that parts on other devices are added once
        # and not at every block.
        weight_sum = sums[0] + _einsum32("pbtv,pbte->pve", apart(low), apart(hidden))
        bias_sum = None if sums[1] is None else sums[1] + apart(slope).sum(axis=(1, 2))
        found = (losses.minimised * shares).sum(), (losses.losses * shares).sum()
        down = placed(jnp.einsum("btv,ve->bte", low, weight), "tokens whole whole")
        return (placed(weight_sum, "tokens vocab whole"), bias_sum), (*found, down)

    def apart(rows: Array) -> Array:
        return rows.reshape(parts, -1, *rows.shape[1:])

    split = _split(targets.shape[0], targets.shape[1], unembedding.weight.shape[0])
    zeros = jax.tree.map(
        lambda leaf: jnp.zeros((parts, *leaf.shape), jnp.float32), (weight, unembedding.bias)
    )
    sums, (objective, cross_entropy, slopes) = jax.lax.scan(
        one_block, zeros, split.cut((hidden, targets, shares))
    )
    low = jax.tree.map(
        lambda leaf, like: leaf.sum(axis=0).astype(like.dtype), sums, (weight, unembedding.bias)
    )
    gradient = Unembedding(low[0], low[1], vocab_size)
    return (objective.sum(), cross_entropy.sum()), (split.join(slopes), gradient)


def _fused_backward(
    extras: Extras, gradients: tuple[Array, Unembedding], factors: tuple[Array, Array]
) -> tuple[Any, ...]:
    """The gradients are linear in what comes from above; targets and shares have none."""
    return *jax.tree.map(lambda leaf: leaf * factors[0].astype(leaf.dtype), gradients), None, None


_fused.defvjp(_fused_forward, _fused_backward)


def _einsum32(equation: str, *operands: Array) -> Array:
    return jnp.einsum(equation, *operands, preferred_element_type=jnp.float32)


def _scored(
    logits: Float[Array, "batch block vocab"],
    targets: Int[Array, "batch block"],
    vocab_size: int,
    extras: Extras,
) -> tuple[TokenLosses, Float[Array, "batch block"]]:
    """Losses, and log Z."""
    log_z = jax.nn.logsumexp(logits, axis=-1)
    chosen = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    objective = log_z - chosen
    if extras.label_smoothing:
        exists = jnp.arange(logits.shape[-1])[None, None, :] < vocab_size
        mean = logits.mean(axis=-1, where=exists)
        objective = objective + extras.label_smoothing * (chosen - mean)
    if extras.z_loss:
        objective = objective + extras.z_loss * jnp.square(log_z)
    return TokenLosses(log_z - chosen, logits.argmax(axis=-1) == targets, objective), log_z


def _slope(
    logits: Float[Array, "batch block vocab"],
    log_z: Float[Array, "batch block"],
    targets: Int[Array, "batch block"],
    vocab_size: int,
    extras: Extras,
) -> Float[Array, "batch block vocab"]:
    """Derivative of the objective for every logit."""
    ids = jnp.arange(logits.shape[-1])[None, None, :]
    slope = jnp.exp(logits - log_z[..., None])
    if extras.z_loss:
        slope = slope * (1.0 + 2.0 * extras.z_loss * log_z[..., None])
    slope = slope - (1.0 - extras.label_smoothing) * (ids == targets[..., None])
    if extras.label_smoothing:
        slope = slope - jnp.where(ids < vocab_size, extras.label_smoothing / vocab_size, 0.0)
    return slope


class _Split(NamedTuple):
    """A sequence cut into blocks.

    Blocks run along the sequence: the batch stays one axis, split over the devices as it is.
    """

    seq: int
    blocks: int
    length: int

    def cut(self, arrays: Any) -> Any:
        """``[batch seq ...]`` to ``[blocks batch length ...]``, the last block filled with 0."""
        padding = self.blocks * self.length - self.seq

        def one(array: Array) -> Array:
            rest = array.shape[2:]
            padded = jnp.pad(array, ((0, 0), (0, padding), *[(0, 0)] * len(rest)))
            return padded.reshape(-1, self.blocks, self.length, *rest).swapaxes(0, 1)

        return jax.tree.map(one, arrays)

    def join(self, arrays: Any) -> Any:
        """What ``cut`` did, undone."""

        def one(array: Array) -> Array:
            rest = array.shape[3:]
            return array.swapaxes(0, 1).reshape(array.shape[1], -1, *rest)[:, : self.seq]

        return jax.tree.map(one, arrays)


def _split(batch: int, seq: int, vocab: int) -> _Split:
    """Blocks of equal length, as few as keep the logits of each device in bounds."""
    backend = _backend.get() or jax.default_backend()
    limit = MAX_BLOCK_LOGITS.get(backend, ACCELERATOR_BLOCK_LOGITS)
    limit *= num_parts("tokens", batch) * num_parts("vocab", vocab)
    length = max(1, min(seq, limit // (batch * vocab)))
    blocks = -(-seq // length)
    return _Split(seq, blocks, -(-seq // blocks))

"""Choosing the next token: pure functions of logits, computed in float32."""

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, UInt

from jax_lm.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """How text is drawn from the model."""

    max_new_tokens: int = 128
    """Longest continuation, in tokens."""
    temperature: float = 0.8
    """Divides the logits; 0 always takes the most probable token."""
    top_k: int = 0
    """Draw among the k most probable tokens only; 0: among all."""
    top_p: float = 1.0
    """Draw among the fewest most probable tokens whose probability reaches p; 1: among all."""
    seed: int = 0
    """The same seed, prompt and model give the same text, alone or in a batch."""

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        checks = {
            "--max-new-tokens": (self.max_new_tokens, self.max_new_tokens >= 1, "at least 1"),
            "--temperature": (self.temperature, 0 <= self.temperature < np.inf, "0 or more"),
            "--top-k": (self.top_k, self.top_k >= 0, "0 (off) or more"),
            "--top-p": (self.top_p, 0 < self.top_p <= 1, "above 0 and at most 1"),
            "--seed": (self.seed, 0 <= self.seed < 2**32, "between 0 and 2^32 - 1"),
        }
        for flag, (value, valid, expected) in checks.items():
            if not valid:
                raise UsageError(f"{flag} must be {expected}, not {value}")


def sample(
    logits: Float[Array, "batch vocab"],
    keys: Key[Array, "batch"],
    *,
    temperature: float,
    top_k: int = 0,
    top_p: float = 1.0,
) -> Int[Array, "batch"]:
    """One token id a row: the temperature first, then top-k, then top-p, then the draw."""
    logits = logits.astype(jnp.float32)
    if temperature == 0.0:
        return logits.argmax(axis=-1).astype(jnp.int32)
    logits = logits / temperature
    if top_k:
        logits = keep_top_k(logits, top_k)
    if top_p < 1.0:
        logits = keep_top_p(logits, top_p)
    return jax.vmap(jax.random.categorical)(keys, logits).astype(jnp.int32)


def keep_top_k(logits: Float[Array, "batch vocab"], k: int) -> Float[Array, "batch vocab"]:
    """-inf for all but the ``k`` largest; of equal logits the lower id counts as larger."""
    order = jnp.argsort(logits, axis=-1, descending=True, stable=True)
    return _keep(logits, order, jnp.arange(logits.shape[-1])[None] < jnp.full_like(order, k))


def keep_top_p(logits: Float[Array, "batch vocab"], p: float) -> Float[Array, "batch vocab"]:
    """-inf for all but the fewest most probable tokens whose probability reaches ``p``.

    Nucleus sampling (Holtzman et al. 2020, arXiv:1904.09751).
    """
    order = jnp.argsort(logits, axis=-1, descending=True, stable=True)
    probabilities = jax.nn.softmax(jnp.take_along_axis(logits, order, axis=-1), axis=-1)
    before = jnp.cumsum(probabilities, axis=-1) - probabilities
    return _keep(logits, order, before < p)


def streams(seed: int, prompts: Sequence[Sequence[int]]) -> Key[Array, "batch"]:
    """A random stream a row, from the seed, the prompt, and which of its copies the row is.

    So a row's text depends on nothing else in the batch, and copies of a prompt differ.
    """
    seen: Counter[int] = Counter()
    words = []
    for prompt in prompts:
        digest = zlib.crc32(np.asarray(prompt, np.int32).tobytes())
        words.append((digest, seen[digest]))
        seen[digest] += 1
    return jax.vmap(_stream, in_axes=(None, 0))(jnp.uint32(seed), jnp.array(words, jnp.uint32))


def token_keys(streams: Key[Array, "batch"], index: Int[Array, ""]) -> Key[Array, "batch"]:
    """The keys of every row's new token number ``index``."""
    return jax.vmap(jax.random.fold_in, in_axes=(0, None))(streams, index)


def _stream(seed: UInt[Array, ""], words: UInt[Array, "2"]) -> Key[Array, ""]:
    key = jax.random.key(seed)
    return jax.random.fold_in(jax.random.fold_in(key, words[0]), words[1])


def _keep(
    logits: Float[Array, "batch vocab"],
    order: Int[Array, "batch vocab"],
    kept: Bool[Array, "batch vocab"],
) -> Float[Array, "batch vocab"]:
    """-inf where ``kept``, which is in the order of ``order``, is false."""
    rows = jnp.arange(logits.shape[0])[:, None]
    return jnp.where(jnp.zeros(logits.shape, bool).at[rows, order].set(kept), logits, -jnp.inf)

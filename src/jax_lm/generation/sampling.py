"""Choosing the next token: pure functions of logits, computed in float32, a row's settings arrays.

What only some batches ask for is behind ``lax.cond``: the others do not pay for it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, UInt

from jax_lm.errors import UsageError, check_values

WORD = 32
"""Bits of a float32."""


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """How text is drawn from the model."""

    max_new_tokens: int = 128
    """Longest continuation, in tokens."""
    min_new_tokens: int = 0
    """Shortest continuation, in tokens: until then no token that ends a text is drawn."""
    temperature: float = 0.8
    """Divides the logits; 0 always takes the most probable token."""
    top_k: int = 0
    """Draw among the k most probable tokens only; 0: among all."""
    top_p: float = 1.0
    """Draw among the fewest most probable tokens whose probability reaches p; 1: among all."""
    min_p: float = 0.0
    """Draw among tokens at least p times as probable as the most probable one; 0: among all."""
    repetition_penalty: float = 1.0
    """Divides positive logits of tokens that the text has, multiplies negative ones; 1: off."""
    stop: tuple[str, ...] = ()
    """Text that ends a continuation, and is not part of it."""
    stop_ids: tuple[int, ...] = ()
    """Tokens that end a continuation, besides the end-of-sequence token."""
    seed: int = 0
    """The same seed, prompt and model give the same text, alone or in a batch."""

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        least, penalty = self.min_new_tokens, self.repetition_penalty
        check_values(
            {
                "--max-new-tokens": (self.max_new_tokens, self.max_new_tokens >= 1, "1 or more"),
                "--min-new-tokens": (least, least >= 0, "0 or more"),
                "--temperature": (self.temperature, 0 <= self.temperature < np.inf, "0 or more"),
                "--top-k": (self.top_k, self.top_k >= 0, "0 (off) or more"),
                "--top-p": (self.top_p, 0 < self.top_p <= 1, "above 0 and at most 1"),
                "--min-p": (self.min_p, 0 <= self.min_p <= 1, "from 0 to 1"),
                "--repetition-penalty": (penalty, 0 < penalty < np.inf, "above 0"),
                "--stop": ("empty", "" not in self.stop, "some text"),
                "--stop-ids": (self.stop_ids, min(self.stop_ids, default=0) >= 0, "token ids"),
                "--seed": (self.seed, 0 <= self.seed < 2**32, "from 0 to 2^32 - 1"),
            }
        )
        if least > self.max_new_tokens:
            raise UsageError(
                f"--min-new-tokens is {least}, expected at most --max-new-tokens, "
                f"{self.max_new_tokens}"
            )


def sample(
    logits: Float[Array, "batch vocab"],
    keys: Key[Array, "batch"],
    *,
    temperature: Float[Array, "batch"],
    top_k: Int[Array, "batch"],
    top_p: Float[Array, "batch"],
    min_p: Float[Array, "batch"],
) -> Int[Array, "batch"]:
    """One token id a row: temperature first, then top-k, top-p and min-p, then the draw.

    Args:
        logits: of the next token.
        keys: of the rows.
        temperature: 0: the most probable token.
        top_k: 0: off.
        top_p: 1: off.
        min_p: 0: off.
    """
    logits = logits.astype(jnp.float32)
    greedy = logits.argmax(axis=-1).astype(jnp.int32)

    def filtered(logits: Float[Array, "batch vocab"]) -> Float[Array, "batch vocab"]:
        logits = _where_asked(top_k > 0, lambda x: keep_top_k(x, top_k), logits)
        logits = _where_asked(top_p < 1.0, lambda x: keep_top_p(x, top_p), logits)
        return keep_min_p(logits, min_p)

    def drawn() -> Int[Array, "batch"]:
        scaled = logits / jnp.where(temperature > 0, temperature, 1.0)[:, None]
        asked = (top_k > 0) | (top_p < 1.0) | (min_p > 0.0)
        ids = jax.vmap(jax.random.categorical)(keys, _where_asked(asked, filtered, scaled))
        return jnp.where(temperature > 0, ids.astype(jnp.int32), greedy)

    chosen: Array = jax.lax.cond((temperature > 0).any(), drawn, lambda: greedy)
    return chosen


def keep_top_k(
    logits: Float[Array, "batch vocab"], k: Int[Array, "batch"]
) -> Float[Array, "batch vocab"]:
    """-inf for all but each row's ``k`` largest; of equal logits the lower id counts as larger."""
    kept = largest(logits, jnp.ones(logits.shape, jnp.int32), jnp.where(k > 0, k, logits.shape[1]))
    return jnp.where(kept, logits, -jnp.inf)


def keep_top_p(
    logits: Float[Array, "batch vocab"], p: Float[Array, "batch"]
) -> Float[Array, "batch vocab"]:
    """-inf for all but the fewest most probable tokens whose probability reaches ``p``.

    Nucleus sampling (Holtzman et al. 2020, arXiv:1904.09751).
    """
    kept = largest(logits, jax.nn.softmax(logits, axis=-1), jnp.where(p < 1.0, p, jnp.inf))
    return jnp.where(kept, logits, -jnp.inf)


def keep_min_p(
    logits: Float[Array, "batch vocab"], p: Float[Array, "batch"]
) -> Float[Array, "batch vocab"]:
    """-inf for tokens less than ``p`` times as probable as the most probable one.

    Min-p sampling (Nguyen et al. 2024, arXiv:2407.01082).
    """
    least = logits.max(axis=-1) + jnp.log(p)  # log 0 is -inf: all are kept
    return jnp.where(logits >= least[:, None], logits, -jnp.inf)


def largest(
    values: Float[Array, "batch vocab"],
    weights: Float[Array, "batch vocab"] | Int[Array, "batch vocab"],
    target: Float[Array, "batch"] | Int[Array, "batch"],
) -> Bool[Array, "batch vocab"]:
    """The fewest largest values of each row whose weights sum to ``target``, or all.

    The smallest of them is found bit by bit, which on a CPU is many times as fast as sorting a
    vocabulary. Of equal values the one with the lower index counts as larger.
    """
    order = _ordered(values)

    def weight_of(chosen: Bool[Array, "batch vocab"]) -> Array:
        return jnp.where(chosen, weights, 0).sum(axis=-1)

    def one_bit(i: Int[Array, ""], least: UInt[Array, "batch"]) -> UInt[Array, "batch"]:
        higher = least | (jnp.uint32(1) << (WORD - 1 - i).astype(jnp.uint32))
        return jnp.where(weight_of(order >= higher[:, None]) >= target, higher, least)

    least = jax.lax.fori_loop(0, WORD, one_bit, jnp.zeros(values.shape[0], jnp.uint32))
    above, equal = order > least[:, None], order == least[:, None]
    of_equal = jnp.where(equal, weights, 0)
    before = weight_of(above)[:, None] + jnp.cumsum(of_equal, axis=-1) - of_equal
    kept: Bool[Array, "batch vocab"] = above | (equal & (before < target[:, None]))
    return kept


def penalise(
    logits: Float[Array, "batch vocab"],
    tokens: Int[Array, "batch slots"],
    lengths: Int[Array, "batch"],
    penalty: Float[Array, "batch"],
) -> Float[Array, "batch vocab"]:
    """Make tokens that a text has less probable (Keskar et al. 2019, arXiv:1909.05858).

    Args:
        logits: of the next token.
        tokens: the text, prompt and all.
        lengths: how many of a row's tokens are its text.
        penalty: divides positive logits and multiplies negative ones.
    """
    rows = jnp.arange(logits.shape[0])[:, None]
    found = logits[rows, tokens]
    factor = penalty[:, None]
    changed = jnp.where(found < 0, found * factor, found / factor)
    real = jnp.arange(tokens.shape[1])[None, :] < lengths[:, None]
    return logits.at[rows, jnp.where(real, tokens, logits.shape[1])].set(changed, mode="drop")


def forbid(
    logits: Float[Array, "batch vocab"], ids: Int[Array, "batch ids"], where: Bool[Array, "batch"]
) -> Float[Array, "batch vocab"]:
    """-inf for a row's ``ids`` (negative: none), in the rows where that is asked."""
    rows = jnp.arange(logits.shape[0])[:, None]
    asked = where[:, None] & (ids >= 0)
    return logits.at[rows, jnp.where(asked, ids, logits.shape[1])].set(-jnp.inf, mode="drop")


def token_log_prob(
    logits: Float[Array, "batch vocab"], ids: Int[Array, "batch"]
) -> Float[Array, "batch"]:
    """Natural log of the probability that the model gives each row's id."""
    chosen = jnp.take_along_axis(logits, ids[:, None], axis=-1)[:, 0]
    return chosen - jax.nn.logsumexp(logits, axis=-1)


def stream(words: UInt[Array, "3"]) -> UInt[Array, "2"]:
    """A random stream, as the data of a key, from a seed, a prompt's digest and a copy's number."""
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(words[0]), words[1]), words[2])
    return jax.random.key_data(key)


def token_keys(streams: UInt[Array, "batch 2"], made: Int[Array, "batch"]) -> Key[Array, "batch"]:
    """The key of each row's new token number ``made``."""
    return jax.vmap(jax.random.fold_in)(jax.random.wrap_key_data(streams), made)


def _where_asked(
    asked: Bool[Array, "batch"], change: Callable[[Array], Array], logits: Array
) -> Array:
    """``change(logits)`` where any row asks for it."""
    changed: Array = jax.lax.cond(asked.any(), change, lambda x: x, logits)
    return changed


def _ordered(values: Float[Array, "batch vocab"]) -> UInt[Array, "batch vocab"]:
    """Unsigned numbers in the order of the floats."""
    # Of equal zeros none may be the larger one.
    bits = jax.lax.bitcast_convert_type(values.astype(jnp.float32) + 0.0, jnp.uint32)
    negative = bits >> (WORD - 1) == 1
    return jnp.where(negative, ~bits, bits | jnp.uint32(1 << (WORD - 1)))

"""Beam search: the most probable continuations that a few hypotheses at a time lead to.

Equal to transformers' ``generate(num_beams=...)``: scores are sums of log-probabilities divided by
length ** length_penalty, the length being that of the continuation with the token that ends it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jax_lm.errors import UsageError, check_values
from jax_lm.generation.beam_step import (
    BeamState,
    Chosen,
    Finished,
    Rules,
    advance,
    begin,
    num_candidates,
)
from jax_lm.generation.decodable import (
    Cache,
    Decodable,
    for_decoding,
    longest_text,
    matmul_precision,
    next_logits,
    read_prompts,
    split_prompt,
)
from jax_lm.generation.requests import Finish
from jax_lm.generation.slots import bucket, power_of_two
from jax_lm.models.decoder import Decoder
from jax_lm.models.encoder_decoder import EncoderDecoder, Seq2SeqCache


@dataclass(frozen=True, kw_only=True)
class BeamConfig:
    """How continuations are searched for."""

    num_beams: int = 4
    """Hypotheses that are followed at once."""
    num_returns: int = 1
    """Continuations of each prompt, the best first."""
    max_new_tokens: int = 128
    """Longest continuation, in tokens."""
    min_new_tokens: int = 0
    """Shortest continuation, in tokens."""
    length_penalty: float = 1.0
    """Power of the length that scores are divided by: above 0 favours long continuations."""
    early_stopping: bool = False
    """End a search once as many continuations as there are beams have ended; else go on until no
    running one is likely to be better."""
    repetition_penalty: float = 1.0
    """Log-probabilities of tokens that were already there are multiplied by it; 1: off."""
    stop_ids: tuple[int, ...] = ()
    """Tokens that end a continuation, besides the end-of-sequence token."""

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        least, penalty = self.min_new_tokens, self.repetition_penalty
        in_range = 1 <= self.num_returns <= self.num_beams
        check_values(
            {
                "--num-beams": (self.num_beams, self.num_beams >= 1, "1 or more"),
                "--num-samples": (self.num_returns, in_range, "from 1 to --num-beams"),
                "--max-new-tokens": (self.max_new_tokens, self.max_new_tokens >= 1, "1 or more"),
                "--min-new-tokens": (least, least >= 0, "0 or more"),
                "--length-penalty": (
                    self.length_penalty,
                    bool(np.isfinite(self.length_penalty)),
                    "a number",
                ),
                "--repetition-penalty": (penalty, 0 < penalty < np.inf, "above 0"),
            }
        )


class Beam(NamedTuple):
    """One continuation."""

    ids: list[int]
    """Without the token that ended it."""
    score: float
    """Sum of log-probabilities over length ** length_penalty."""
    finish: Finish
    """What ended it: a token, or the limit."""


def beam_search(
    model: Decoder | EncoderDecoder,
    prompts: Sequence[Sequence[int]],
    config: BeamConfig,
    *,
    eos_id: int | None,
    batch_size: int = 16,
    dtype: str = "float32",
    advance: Callable[[int], object] = lambda ended: None,
) -> list[list[Beam]]:
    """The best continuations of prompts of any lengths, each as if it were alone.

    Args:
        model: of a family that continues text; an encoder-decoder's prompt is its encoder's input.
        prompts: token ids; none may be empty.
        config: how continuations are searched for.
        eos_id: the token that ends a text; None: none does.
        batch_size: prompts searched for at once.
        dtype: of the model's computation, and of the cache.
        advance: told how many continuations have just ended.

    Returns:
        For each prompt its ``num_returns`` best continuations, the best first.

    Raises:
        UsageError: a prompt is empty or does not fit the model, or its shortest continuation does
            not.
    """
    stops = sorted({*config.stop_ids, *(() if eos_id is None else (eos_id,))})
    context = longest_text(model, None)
    for i, prompt in enumerate(prompts):
        _check_prompt(i, prompt, context, model.config.vocab_size)
        _check_least(i, len(prompt), _limit(model, len(prompt), config), config)
    _check_stops(model.config.vocab_size, stops, config.num_beams)
    ready = for_decoding(model, dtype)
    found: list[list[Beam]] = []
    with matmul_precision(ready):
        for start in range(0, len(prompts), batch_size):
            part = _search(ready, prompts[start : start + batch_size], config, stops)
            advance(sum(map(len, part)))
            found += part
    return found


def _check_prompt(index: int, prompt: Sequence[int], context: int, size: int) -> None:
    if not prompt:
        raise UsageError(f"prompt {index} is empty, and there is nothing to start from: write one")
    if len(prompt) > context:
        raise UsageError(
            f"prompt {index} has {len(prompt)} tokens, and the model's context is {context}: "
            "shorten it"
        )
    if not 0 <= min(prompt) <= max(prompt) < size:
        raise UsageError(f"prompt {index} has ids that are none of the model's {size}")


def _check_least(index: int, length: int, limit: int, config: BeamConfig) -> None:
    if limit < min(config.min_new_tokens, config.max_new_tokens):
        raise UsageError(
            f"--min-new-tokens is {config.min_new_tokens}, and a beam search stays in the model's "
            f"context, which has room for {limit} after prompt {index} ({length} tokens): ask for "
            "fewer"
        )


def _check_stops(size: int, stops: Sequence[int], beams: int) -> None:
    for stop in stops:
        if not 0 <= stop < size:
            raise UsageError(f"stop id {stop} is none of the model's {size} token ids")
    if num_candidates(beams, len(stops)) > size:
        raise UsageError(f"--num-beams {beams} is too many for a vocabulary of {size} tokens")


def _search(
    model: Decodable, prompts: Sequence[Sequence[int]], config: BeamConfig, stops: Sequence[int]
) -> list[list[Beam]]:
    """One batch, in arrays whose sizes are powers of two."""
    rows, context = power_of_two(len(prompts)), longest_text(model, None)
    limits = np.ones(rows, np.int32)  # rows that only fill the batch end at once
    limits[: len(prompts)] = [_limit(model, len(prompt), config) for prompt in prompts]
    rules = Rules(
        stop_ids=jnp.array(stops, jnp.int32),
        limits=jnp.asarray(limits),
        min_new_tokens=jnp.int32(config.min_new_tokens),
        repetition_penalty=jnp.float32(config.repetition_penalty),
        early_stopping=jnp.bool_(config.early_stopping),
    )
    split = [split_prompt(model, prompt) for prompt in prompts]
    lengths = np.zeros(rows, np.int32)
    lengths[: len(split)] = [len(read) for read, _ in split]
    input_ids = np.zeros((rows, bucket(int(lengths.max()), context)), np.int32)
    last = np.zeros(rows, np.int32)
    for row, (read, newest) in enumerate(split):
        input_ids[row, : len(read)] = read
        last[row] = newest
    most = int(limits.max())
    before = 0 if isinstance(model, EncoderDecoder) else int(lengths.max())
    sizes = _Sizes(
        beams=config.num_beams,
        slots=max(input_ids.shape[1], bucket(before + most, context)),
        tokens=bucket(most, context),
        penalised=config.repetition_penalty != 1.0,
    )
    state, chosen, cache = _begin(model, input_ids, lengths, last, sizes=sizes)
    for made in range(most):
        norm = np.float32((made + 1) ** config.length_penalty)
        state, chosen, cache = _step(model, state, chosen, cache, rules, norm)
        if chosen.done:
            break
    return _beams(state.finished, stops, config.num_returns)[: len(prompts)]


def _limit(model: Decodable, length: int, config: BeamConfig) -> int:
    """Most tokens of a prompt's continuations; the last one is not read, and needs no place."""
    context = longest_text(model, None)
    room = context if isinstance(model, EncoderDecoder) else context + 1 - length
    return min(config.max_new_tokens, room)


class _Sizes(NamedTuple):
    """Of arrays: what is compiled in."""

    beams: int
    slots: int
    """Of the cache."""
    tokens: int
    """Of a hypothesis."""
    penalised: bool
    """Whether it is remembered which ids were seen."""


@partial(jax.jit, static_argnames="sizes")
def _begin(
    model: Decodable,
    input_ids: Int[Array, "rows seq"],
    lengths: Int[Array, "rows"],
    last: Int[Array, "rows"],
    *,
    sizes: _Sizes,
) -> tuple[BeamState, Chosen, Cache]:
    """Read the prompts; all beams of a row begin alike."""
    rows, vocab = len(last), model.unembedding.weight.shape[0]
    seen = None
    if sizes.penalised:
        seen = jnp.zeros((rows, vocab), bool).at[jnp.arange(rows), last].set(True)
        if not isinstance(model, EncoderDecoder):
            real = jnp.arange(input_ids.shape[1])[None, :] < lengths[:, None]
            counted = jnp.where(real, input_ids, vocab)  # padding is no id, and dropped
            seen = seen.at[jnp.arange(rows)[:, None], counted].set(True, mode="drop")
    cache = with_slots(read_prompts(model, input_ids, lengths), sizes.slots)
    cache = jax.tree.map(lambda leaf: jnp.repeat(leaf, sizes.beams, axis=0), cache)
    beams = jnp.broadcast_to(jnp.arange(sizes.beams)[None, :], (rows, sizes.beams))
    chosen = Chosen(beams, jnp.broadcast_to(last[:, None], beams.shape), jnp.bool_(False))
    return begin(seen, rows, sizes.beams, sizes.tokens), chosen, cache


@partial(jax.jit, donate_argnames=("state", "cache"))
def _step(
    model: Decodable,
    state: BeamState,
    chosen: Chosen,
    cache: Cache,
    rules: Rules,
    norm: Float[Array, ""],
) -> tuple[BeamState, Chosen, Cache]:
    """Read the newest tokens and choose the next ones."""
    rows, beams = chosen.tokens.shape
    parents = (chosen.parents + jnp.arange(rows)[:, None] * beams).reshape(-1)
    logits, cache = next_logits(model, chosen.tokens.reshape(-1), _reordered(cache, parents))
    return *advance(state, logits.reshape(rows, beams, -1), rules, norm), cache


def _reordered(cache: Cache, parents: Int[Array, "batch"]) -> Cache:
    """Each beam's past; that of an input is all its beams' alike, and stays."""
    if isinstance(cache, Seq2SeqCache):
        own = jax.tree.map(lambda leaf: leaf[parents], cache.layers.own)
        return cache._replace(layers=cache.layers._replace(own=own))
    return cache._replace(layers=jax.tree.map(lambda leaf: leaf[parents], cache.layers))


def with_slots(cache: Cache, slots: int) -> Cache:
    """The cache with room for texts of ``slots`` tokens."""

    def widened(leaf: Float[Array, "batch heads slots head_dim"]) -> Array:
        return jnp.pad(leaf, ((0, 0), (0, 0), (0, slots - leaf.shape[2]), (0, 0)))

    if isinstance(cache, Seq2SeqCache):
        own = jax.tree.map(widened, cache.layers.own)
        return cache._replace(layers=cache.layers._replace(own=own))
    return cache._replace(layers=jax.tree.map(widened, cache.layers))


def _beams(finished: Finished, stops: Sequence[int], count: int) -> list[list[Beam]]:
    """The best of every row."""
    ids, lengths, scores = (np.asarray(part) for part in finished[:3])
    return [
        [_beam(ids[row, i, : lengths[row, i]], float(scores[row, i]), stops) for i in range(count)]
        for row in range(len(ids))
    ]


def _beam(ids: Int[np.ndarray, "tokens"], score: float, stops: Sequence[int]) -> Beam:
    stopped = int(ids[-1]) in stops
    return Beam(ids[: len(ids) - stopped].tolist(), score, "stop" if stopped else "length")

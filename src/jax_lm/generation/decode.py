"""Continuing prompts: one forward pass over them, then a token at a time from the cache."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from jax_lm.errors import UsageError
from jax_lm.generation.sampling import SamplingConfig, sample, streams, token_keys
from jax_lm.models.decoder import Decoder
from jax_lm.models.layers.kv_cache import KVCache
from jax_lm.models.layers.placement import placed

SMALLEST_BUCKET = 32
NO_TOKEN = -1
"""Fills the columns of a row that has ended; as ``eos_id`` it ends none."""


class Settings(NamedTuple):
    """What is compiled in: another value compiles prefill and decode again."""

    slots: int
    temperature: float
    top_k: int
    top_p: float
    eos_id: int


class Decoding(NamedTuple):
    """A batch in the middle of being continued."""

    cache: KVCache
    last: Int[Array, "batch"]
    """Each row's newest token, which is not in the cache yet."""
    tokens: Int[Array, "batch slots"]
    """The round's new tokens; column i holds the i-th."""
    num_columns: Int[Array, ""]
    """Columns that are filled."""
    done: Bool[Array, "batch"]
    """Rows that reached the end-of-sequence token."""


@dataclass
class Row:
    """One prompt and what follows it."""

    ids: list[int]
    prompt_length: int
    start: int = 0
    """Where in ``ids`` the part that the model sees begins."""
    done: bool = False

    @property
    def seen(self) -> list[int]:
        """The part of the text that the model is given."""
        return self.ids[self.start :]


def generate(
    model: Decoder,
    prompts: Sequence[Sequence[int]],
    config: SamplingConfig,
    *,
    eos_id: int | None,
    notice: Callable[[str], None] | None = None,
) -> list[list[int]]:
    """Continue prompts of any lengths in one batch.

    Prompts are padded on the right to the next power of two, so prompts of similar lengths share
    two compiled programs: prefill and decode. When the context is full the text goes on from its
    last half.

    Args:
        model: called with right-padded ids and a cache.
        prompts: token ids; none may be empty.
        config: how tokens are drawn, and how many.
        eos_id: the token that ends a text; None: none does.
        notice: told, at most once each, that a prompt was cut or that a context was full.

    Returns:
        The new ids of each prompt, without the end-of-sequence token.

    Raises:
        UsageError: a prompt is empty.
    """
    if not all(len(prompt) for prompt in prompts):
        raise UsageError("a prompt is empty, and there is nothing to start from: write one")
    if not prompts:
        return []
    context = model.config.context_length
    say = notice or (lambda _: None)
    rows = [_row(prompt, context, config.max_new_tokens, say) for prompt in prompts]
    keys = streams(config.seed, prompts)
    eos = NO_TOKEN if eos_id is None else eos_id
    made = _round(model, rows, keys, config, made=0, eos_id=eos)
    if not _finished(rows, made, config):
        half = max(1, context // 2)
        say(f"the context of {context} tokens is full: the text goes on from its last {half}")
    while not _finished(rows, made, config):
        _slide(rows, context)
        made += _round(model, rows, keys, config, made=made, eos_id=eos)
    return [row.ids[row.prompt_length :] for row in rows]


@partial(jax.jit, static_argnames="settings")
def prefill(
    model: Decoder,
    input_ids: Int[Array, "batch seq"],
    lengths: Int[Array, "batch"],
    done: Bool[Array, "batch"],
    keys: Key[Array, "batch"],
    made: Int[Array, ""],
    *,
    settings: Settings,
) -> Decoding:
    """Fill a cache with right-padded prompts and draw the first new token of each."""
    batch = input_ids.shape[0]
    cache = model.empty_cache(batch, settings.slots, model.unembedding.weight.dtype)
    hidden, cache = model.decode(input_ids, cache)
    newest = hidden[jnp.arange(batch), lengths - 1]
    tokens = jnp.full((batch, settings.slots), NO_TOKEN, jnp.int32)
    state = Decoding(cache._replace(lengths=lengths), lengths, tokens, jnp.int32(0), done)
    return _draw(model, state, newest, token_keys(keys, made), settings)


@partial(jax.jit, static_argnames="settings")
def decode(
    model: Decoder,
    state: Decoding,
    keys: Key[Array, "batch"],
    made: Int[Array, ""],
    budget: Int[Array, ""],
    *,
    settings: Settings,
) -> Decoding:
    """Draw tokens until there are ``budget``, every row has ended or a row's cache is full."""

    def going_on(state: Decoding) -> Bool[Array, ""]:
        full = ~state.done & (state.cache.lengths >= settings.slots)
        return (state.num_columns < budget) & ~state.done.all() & ~full.any()

    def one_token(state: Decoding) -> Decoding:
        hidden, cache = model.decode(state.last[:, None], state.cache)
        keys_now = token_keys(keys, made + state.num_columns)
        return _draw(model, state._replace(cache=cache), hidden[:, 0], keys_now, settings)

    return jax.lax.while_loop(going_on, one_token, state)


def bucket(length: int, context: int) -> int:
    """The next power of two, from 32 on, and at most the context."""
    return min(context, max(SMALLEST_BUCKET, 1 << (length - 1).bit_length()))


def _draw(
    model: Decoder,
    state: Decoding,
    hidden: Float[Array, "batch embed"],
    keys: Key[Array, "batch"],
    settings: Settings,
) -> Decoding:
    ids = sample(
        model.unembedding.logits(hidden),
        keys,
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
    )
    column = jnp.where(state.done, NO_TOKEN, ids)
    done = state.done | (ids == settings.eos_id)
    # A row that has ended keeps writing to its first slot, so that it never runs out of them.
    lengths = jnp.where(done, 0, state.cache.lengths)
    return Decoding(
        cache=state.cache._replace(lengths=lengths),
        last=ids,
        tokens=placed(state.tokens.at[:, state.num_columns].set(column), "whole whole"),
        num_columns=state.num_columns + 1,
        done=done,
    )


def _row(prompt: Sequence[int], context: int, new: int, say: Callable[[str], None]) -> Row:
    row = Row(ids=[int(token) for token in prompt], prompt_length=len(prompt))
    if len(prompt) > context:
        kept = max(1, context // 2, context - new + 1)
        row.start = len(prompt) - kept
        say(
            f"a prompt of {len(prompt)} tokens is longer than the context of {context}: "
            f"only its last {kept} are read"
        )
    return row


def _round(
    model: Decoder,
    rows: list[Row],
    keys: Key[Array, "batch"],
    config: SamplingConfig,
    *,
    made: int,
    eos_id: int,
) -> int:
    """Continue the rows until all have ended or one has filled the context; counts new columns."""
    context = model.config.context_length
    width = bucket(max(len(row.seen) for row in rows), context)
    input_ids = np.zeros((len(rows), width), np.int32)
    for i, row in enumerate(rows):
        input_ids[i, : len(row.seen)] = row.seen
    settings = Settings(
        slots=bucket(width + config.max_new_tokens, context),
        temperature=config.temperature,
        top_k=config.top_k,
        top_p=config.top_p,
        eos_id=eos_id,
    )
    lengths = np.array([len(row.seen) for row in rows], np.int32)
    done = np.array([row.done for row in rows])
    state = prefill(model, input_ids, lengths, done, keys, np.int32(made), settings=settings)
    budget = np.int32(config.max_new_tokens - made)
    state = decode(model, state, keys, np.int32(made), budget, settings=settings)
    count = int(state.num_columns)
    for row, tokens in zip(rows, np.asarray(state.tokens)[:, :count].tolist(), strict=True):
        _extend(row, tokens, eos_id)
    return count


def _extend(row: Row, tokens: list[int], eos_id: int) -> None:
    if row.done:
        return
    row.done = eos_id in tokens
    row.ids.extend(tokens[: tokens.index(eos_id)] if row.done else tokens)


def _finished(rows: list[Row], made: int, config: SamplingConfig) -> bool:
    return made >= config.max_new_tokens or all(row.done for row in rows)


def _slide(rows: list[Row], context: int) -> None:
    """Rows with more text than the context holds go on from its last half."""
    for row in rows:
        if row.done:
            row.start = len(row.ids) - 1
        elif len(row.seen) > context:
            row.start = len(row.ids) - max(1, context // 2)

"""The compiled parts of decoding in slots: texts enter, take a step, and make room for others."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt

from jax_lm.generation.decodable import (
    Cache,
    CacheShape,
    Decodable,
    empty_cache,
    matmul_precision,
    next_logits,
    read_prompts,
)
from jax_lm.generation.sampling import (
    forbid,
    penalise,
    sample,
    stream,
    token_keys,
    token_log_prob,
)
from jax_lm.generation.settings import NO_ID, Settings
from jax_lm.models.decoder import Decoder
from jax_lm.models.layers.placement import placed

GOES_ON, STOP, LENGTH = range(3)
AXES = {1: "batch", 2: "batch whole", 4: "batch heads slots head_dim"}


class Rows(NamedTuple):
    """What is known of each slot's text, besides the model's memory of it."""

    tokens: Int[Array, "batch slots"]
    """The text, from the prompt on."""
    last: Int[Array, "batch"]
    """The newest token, which the model has not seen yet."""
    made: Int[Array, "batch"]
    """Tokens drawn so far."""
    streams: UInt[Array, "batch 2"]
    """Where random numbers come from."""
    settings: Settings


class Slots(NamedTuple):
    """A batch of texts that come and go."""

    cache: Cache
    rows: Rows


class Arrivals(NamedTuple):
    """Texts that enter, padded to a common size."""

    input_ids: Int[Array, "batch seq"]
    """What is read of the prompt at once."""
    lengths: Int[Array, "batch"]
    """The real ones, of that."""
    last: Int[Array, "batch"]
    """The token that decoding begins with."""
    made: Int[Array, "batch"]
    random_words: UInt[Array, "batch 3"]
    settings: Settings


class Step(NamedTuple):
    """What came out of a step."""

    ids: Int[Array, "batch"]
    log_probs: Float[Array, "batch"]
    finish: Int[Array, "batch"]
    """0: the text goes on; 1: the token ends it; 2: it is as long as it may be."""


@partial(jax.jit, static_argnames=("shape", "num_stop_ids"))
def empty_slots(model: Decodable, *, shape: CacheShape, num_stop_ids: int) -> Slots:
    """Slots without texts."""
    floats, ints = jnp.zeros(shape.rows), jnp.zeros(shape.rows, jnp.int32)
    stop_ids = jnp.full((shape.rows, num_stop_ids), NO_ID, jnp.int32)
    rows = Rows(
        tokens=jnp.zeros((shape.rows, shape.slots), jnp.int32),
        last=ints,
        made=ints,
        streams=jnp.zeros((shape.rows, 2), jnp.uint32),
        settings=Settings(floats, ints, floats, floats, floats, ints, ints, stop_ids),
    )
    return _placed(Slots(empty_cache(model, shape), rows))


@jax.jit
def larger_slots(slots: Slots, empty: Slots) -> Slots:
    """The same texts in the room that ``empty`` has; it is empty itself."""

    def padded(old: Array, new: Array, value: int = 0) -> Array:
        room = [(0, size - had) for size, had in zip(new.shape, old.shape, strict=True)]
        return jnp.pad(old, room, constant_values=value)

    larger: Slots = jax.tree.map(padded, slots, empty)
    settings = larger.rows.settings
    # Here zeros would be ids.
    stop_ids = padded(slots.rows.settings.stop_ids, empty.rows.settings.stop_ids, NO_ID)
    rows = larger.rows._replace(settings=settings._replace(stop_ids=stop_ids))
    return _placed(larger._replace(rows=rows))


@jax.jit
def read(model: Decodable, new: Arrivals) -> Slots:
    """Read prompts: what a slot is to hold of each."""
    with matmul_precision(model):
        cache: Any = read_prompts(model, new.input_ids, new.lengths)
    # An encoder-decoder's input is no part of the text.
    tokens = jnp.pad(new.input_ids, ((0, 0), (0, 1))) * isinstance(model, Decoder)
    tokens = tokens.at[jnp.arange(len(new.last)), cache.lengths].set(new.last)
    streams = jax.vmap(stream)(new.random_words)
    return Slots(cache, Rows(tokens, new.last, new.made, streams, new.settings))


@partial(jax.jit, donate_argnames="slots")
def enter(slots: Slots, arrived: Slots, where: Int[Array, "batch"]) -> Slots:
    """Put texts that were read into their slots.

    Args:
        slots: given up.
        arrived: as ``read`` gives them.
        where: the slot of each; one beyond the last: it is padding, and goes nowhere.
    """

    def put(old: Array, new: Array) -> Array:
        sizes = old.shape[1:]
        new = new[(slice(None), *(slice(size) for size in sizes))]
        room = [(0, size - had) for size, had in zip(sizes, new.shape[1:], strict=True)]
        new = jnp.pad(new, [(0, 0), *room])
        return old.at[where].set(new.astype(old.dtype), mode="drop")

    return _placed(jax.tree.map(put, slots, arrived))


@partial(jax.jit, donate_argnames="slots")
def step(
    model: Decodable, slots: Slots, busy: Bool[Array, "batch"], longest: Int[Array, ""]
) -> tuple[Slots, Step]:
    """One token for every busy slot.

    Args:
        model: as ``for_decoding`` makes it.
        slots: given up.
        busy: which slots hold a text.
        longest: tokens that a text may have in the cache.
    """
    # A free row keeps writing to its first slot, so that it never runs out of them.
    lengths = jnp.where(busy, slots.cache.lengths, 0)
    with matmul_precision(model):
        logits, cache = next_logits(model, slots.rows.last, slots.cache._replace(lengths=lengths))
    rows, settings = slots.rows, slots.rows.settings.of_busy(busy)
    ids = _draw(logits, rows, cache.lengths, settings)
    made = rows.made + 1
    index = jnp.arange(len(ids))
    rows = rows._replace(
        tokens=rows.tokens.at[index, cache.lengths].set(ids, mode="drop"), last=ids, made=made
    )
    stops = (ids[:, None] == settings.stop_ids).any(axis=-1)
    long = (made >= settings.max_new_tokens) | (cache.lengths >= longest)
    finish = jnp.where(stops, STOP, jnp.where(long, LENGTH, GOES_ON))
    drawn = Step(ids, token_log_prob(logits, ids), finish)
    # Each process reads all of it.
    return _placed(Slots(cache, rows)), jax.tree.map(lambda x: placed(x, "whole"), drawn)


def _draw(
    logits: Float[Array, "batch vocab"],
    rows: Rows,
    lengths: Int[Array, "batch"],
    settings: Settings,
) -> Int[Array, "batch"]:
    """Penalties first, as transformers orders them; then the draw."""
    repetition, short = settings.repetition_penalty, rows.made < settings.min_new_tokens
    logits = jax.lax.cond(
        (repetition != 1.0).any(),
        lambda x: penalise(x, rows.tokens, lengths, repetition),
        lambda x: x,
        logits,
    )
    logits = jax.lax.cond(
        short.any(), lambda x: forbid(x, settings.stop_ids, short), lambda x: x, logits
    )
    return sample(
        logits,
        token_keys(rows.streams, rows.made),
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        min_p=settings.min_p,
    )


def _placed(slots: Slots) -> Slots:
    """On a mesh, rows and heads lie where every step has them."""
    kept: Slots = jax.tree.map(lambda leaf: placed(leaf, AXES[leaf.ndim]), slots)
    return kept

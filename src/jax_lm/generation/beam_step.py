"""One step of beam search, without the model: log-probabilities in, the next beams out.

Which hypotheses are compared, and when a search is over, follow transformers' `generate`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

NEVER = -1e9
"""Added to the score of what must not be chosen."""


class Running(NamedTuple):
    """Hypotheses that go on, the best first."""

    ids: Int[Array, "rows beams tokens"]
    scores: Float[Array, "rows beams"]
    """Sums of log-probabilities."""
    seen: Bool[Array, "rows beams vocab"] | None
    """Ids of the prompt and of the hypothesis; None: nobody asks."""


class Finished(NamedTuple):
    """Hypotheses that ended, the best first; places that are still free have score ``NEVER``."""

    ids: Int[Array, "rows beams tokens"]
    lengths: Int[Array, "rows beams"]
    """Tokens, with the one that ended it."""
    scores: Float[Array, "rows beams"]
    """Sums of log-probabilities over length ** length_penalty."""
    ended: Bool[Array, "rows beams"]
    """Places that are taken."""


class BeamState(NamedTuple):
    """A batch of searches."""

    running: Running
    finished: Finished
    open: Bool[Array, "rows"]
    """Searches whose running hypotheses may still beat a finished one."""
    made: Int[Array, ""]
    """Tokens that every running hypothesis has."""


class Rules(NamedTuple):
    """What a step goes by, as arrays: other values compile nothing again."""

    stop_ids: Int[Array, "stops"]
    """Tokens that end a hypothesis."""
    limits: Int[Array, "rows"]
    """Most tokens of each search's hypotheses."""
    min_new_tokens: Int[Array, ""]
    """Hypotheses of fewer tokens do not end."""
    repetition_penalty: Float[Array, ""]
    """Log-probabilities of ids that were seen are multiplied by it."""
    early_stopping: Bool[Array, ""]
    """A search is over once as many hypotheses as there are beams have ended."""


class Chosen(NamedTuple):
    """What the model reads next."""

    parents: Int[Array, "rows beams"]
    """The beam that each new beam goes on from."""
    tokens: Int[Array, "rows beams"]
    done: Bool[Array, ""]
    """All searches are over."""


def num_candidates(beams: int, stops: int) -> int:
    """Continuations that are looked at: enough for ``beams`` of them to go on, whatever ends."""
    return max(2, 1 + stops) * beams


def begin(
    prompt_seen: Bool[Array, "rows vocab"] | None, rows: int, beams: int, tokens: int
) -> BeamState:
    """Searches with nothing found yet; the first step goes on from beam 0 alone.

    Args:
        prompt_seen: ids of each prompt, which the repetition penalty counts; None: no penalty.
        rows: searches.
        beams: hypotheses of each.
        tokens: room for that many in each.
    """
    ids = jnp.zeros((rows, beams, tokens), jnp.int32)
    never = jnp.full((rows, beams), NEVER, jnp.float32)
    seen = None
    if prompt_seen is not None:
        seen = jnp.repeat(prompt_seen[:, None, :], beams, axis=1)
    taken = jnp.zeros((rows, beams), bool)
    return BeamState(
        Running(ids, never.at[:, 0].set(0.0), seen),
        Finished(ids, jnp.zeros((rows, beams), jnp.int32), never, taken),
        jnp.ones(rows, bool),
        jnp.int32(0),
    )


def advance(
    state: BeamState,
    logits: Float[Array, "rows beams vocab"],
    rules: Rules,
    norm: Float[Array, ""],
) -> tuple[BeamState, Chosen]:
    """Every hypothesis by one token.

    Of the best continuations only the first ``beams`` may become finished hypotheses.

    Args:
        state: the searches.
        logits: of what follows each running hypothesis.
        rules: what ends them, and how they are weighed.
        norm: (tokens, with this one) ** length_penalty.
    """
    rows, beams, vocab = logits.shape
    kept = num_candidates(beams, rules.stop_ids.shape[0])
    weighed = _weighed(state, jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1), rules)
    totals = (weighed + state.running.scores[:, :, None]).reshape(rows, beams * vocab)
    scores, places = jax.lax.top_k(totals, kept)
    parents, tokens = places // vocab, (places % vocab).astype(jnp.int32)
    ids = _taken(state.running.ids, parents).at[:, :, state.made].set(tokens)
    made = state.made + 1
    ends = (tokens[:, :, None] == rules.stop_ids[None, None, :]).any(axis=-1)
    ends = ends | (made >= rules.limits)[:, None]
    finished = _finish(
        state, Finished(ids, jnp.full_like(tokens, made), scores / norm, ends), rules
    )
    best, order = jax.lax.top_k(scores + jnp.where(ends, NEVER, 0.0), beams)
    parents, tokens = (jnp.take_along_axis(part, order, axis=1) for part in (parents, tokens))
    seen = state.running.seen
    if seen is not None:
        row, beam = jnp.arange(rows)[:, None], jnp.arange(beams)[None, :]
        seen = _taken(seen, parents).at[row, beam, tokens].set(True)
    worst = jnp.where(finished.ended, finished.scores.min(axis=1, keepdims=True), NEVER)
    still = state.open & (best[:, :1] / norm > worst).any(axis=1)
    over = ~still | (rules.early_stopping & finished.ended.all(axis=1)) | ends.all(axis=1)
    running = Running(_taken(ids, order), best, seen)
    return BeamState(running, finished, still, made), Chosen(parents, tokens, over.all())


def _weighed(
    state: BeamState, log_probs: Float[Array, "rows beams vocab"], rules: Rules
) -> Float[Array, "rows beams vocab"]:
    """With the repetition penalty (Keskar et al. 2019, arXiv:1909.05858) and the least length."""
    if state.running.seen is not None:
        penalised = log_probs * rules.repetition_penalty
        log_probs = jnp.where(state.running.seen, penalised, log_probs)
    stops = jnp.zeros(log_probs.shape[-1], bool).at[rules.stop_ids].set(True)
    too_short = state.made < rules.min_new_tokens
    return jnp.where((stops & too_short)[None, None, :], -jnp.inf, log_probs)


def _finish(state: BeamState, found: Finished, rules: Rules) -> Finished:
    """The best finished hypotheses, old and new; ``found`` are all continuations, best first."""
    beams = state.finished.scores.shape[1]
    closed = rules.early_stopping & state.finished.ended.all(axis=1)
    closed = closed | ~state.open
    ended = found.ended & (jnp.arange(found.ended.shape[1]) < beams)[None, :]
    scores = found.scores + jnp.where(closed, NEVER, 0.0)[:, None]
    new = found._replace(scores=scores + jnp.where(ended, 0.0, NEVER), ended=ended)
    every = jax.tree.map(lambda *parts: jnp.concatenate(parts, axis=1), state.finished, new)
    _, order = jax.lax.top_k(every.scores, beams)
    best: Finished = jax.tree.map(lambda part: _taken(part, order), every)
    return best


def _taken(parts: Array, order: Int[Array, "rows kept"]) -> Array:
    """Those of ``[rows, beams, ...]`` that each row's ``order`` names."""
    return parts[jnp.arange(parts.shape[0])[:, None], order]

"""Log-probabilities of outputs given inputs, for decoders and encoder-decoders."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Bool, Float

from jax_lm.errors import UsageError
from jax_lm.evaluation.scoring.score_batch import pad_rows, score_batch
from jax_lm.generation.slots import bucket, power_of_two
from jax_lm.models.decoder import Decoder
from jax_lm.models.encoder_decoder import EncoderDecoder
from jax_lm.models.forward import Model
from jax_lm.objectives.base import Wanted, places, shifted_right
from jax_lm.objectives.seq2seq import scored_from
from jax_lm.sharding.mesh import MeshConfig, row_shards
from jax_lm.sharding.placing import batch_sharding, put_batch
from jax_lm.sharding.rules import on_mesh
from jax_lm.types import Batch

Pair = tuple[Sequence[int], Sequence[int]]
"""Ids of an input and of the output that follows it."""


class OutputScore(NamedTuple):
    """What a model thinks of one output, given its input."""

    log_prob: float
    """Natural logarithm of the output's probability: the sum over its tokens."""
    num_tokens: int
    """Tokens of the output."""
    is_greedy: bool
    """Whether every one of them was the most probable token."""


class _Row(NamedTuple):
    """A pair cut to the model's context."""

    input: list[int]
    output: list[int]
    widths: tuple[int, ...]
    """Of the arrays it goes into: rows of equal widths share a compiled step."""


def score_outputs(
    model: Model,
    pairs: Sequence[Pair],
    *,
    batch_size: int = 16,
    dtype: str = "float32",
    mesh: Mesh | None = None,
    max_length: int | None = None,
) -> list[OutputScore]:
    """Score outputs given their inputs, each pair independently of the others.

    A decoder reads input and output in one row, an encoder-decoder each in a stack of its own.
    Inputs too long for the model lose their start. Arrays are as wide as the pair needs, rounded
    up to a power of two, so few shapes are compiled.

    Args:
        model: a decoder or an encoder-decoder; on ``mesh``, where there is one.
        pairs: ids, with whatever special tokens the model expects; an encoder-decoder's output
            without the token that its decoder starts from.
        batch_size: most pairs scored at once; the numbers do not depend on it.
        dtype: of the model's computation.
        mesh: devices to split the rows over; None: one device.
        max_length: tokens that a decoder reads at most, or an encoder-decoder's stacks each; None:
            the model's context.

    Returns:
        A score for each pair, in order; an empty output has probability 1.

    Raises:
        UsageError: an input is empty, an output does not fit the model, or the model is of a kind
            that gives outputs no probability.
    """
    context = model.config.context_length if max_length is None else max_length
    rows = [_row(model, context, i, pair) for i, pair in enumerate(pairs)]
    alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        if row.output:
            alike[row.widths].append(i)
    scores = [OutputScore(0.0, 0, True)] * len(rows)
    with nullcontext() if mesh is None else on_mesh(mesh, MeshConfig()):
        for indices in alike.values():
            for part in _parts(indices, batch_size):
                batch = _batch(model, [rows[i] for i in part])
                losses, correct = _scored(model, batch, batch_size, dtype, mesh)
                for i, found in zip(part, _sums(batch, losses, correct), strict=True):
                    scores[i] = found
    return scores


def _row(model: Model, context: int, index: int, pair: Pair) -> _Row:
    source, target = ([int(token) for token in ids] for ids in pair)
    if not source:
        raise UsageError(
            f"input {index} is empty, and an output is scored after something: begin it with BOS "
            "or EOS"
        )
    if len(target) > context:
        raise UsageError(
            f"output {index} has {len(target)} tokens, and the model's context is {context}: "
            "shorten it, or score it in parts"
        )
    if isinstance(model, EncoderDecoder):
        source = source[-context:]
        return _Row(source, target, (bucket(len(source), context), bucket(len(target), context)))
    if not isinstance(model, Decoder):
        config = model.config
        raise UsageError(
            f"{config.family} is of kind {config.kind}, and only decoders and encoder-decoders "
            "give outputs a probability"
        )
    # The last token is predicted and never read.
    source = source[-(context + 1 - len(target)) :]
    return _Row(source, target, (bucket(len(source) + len(target) - 1, context),))


def _parts(indices: list[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(indices), size):
        yield indices[start : start + size]


def _batch(model: Model, rows: Sequence[_Row]) -> Batch:
    inputs = np.array([len(row.input) for row in rows])
    outputs = np.array([len(row.output) for row in rows])
    widths = rows[0].widths
    if isinstance(model, EncoderDecoder):
        started = Wanted(
            kind=model.config.kind,
            input_length=widths[0],
            decoder_start_id=model.config.decoder_start_id,
        ).started()
        targets = _filled([row.output for row in rows], widths[1])
        return Batch(
            _filled([row.input for row in rows], widths[0]),
            targets,
            places(outputs, widths[1]).astype(np.float32),
            places(inputs, widths[0]).astype(np.int32),
            decoder_input_ids=shifted_right(targets, started),
        )
    line = _filled([row.input + row.output for row in rows], widths[0] + 1)
    return scored_from(line, inputs, inputs + outputs)


def _filled(ids: Sequence[Sequence[int]], width: int) -> np.ndarray:
    filled = np.zeros((len(ids), width), np.int32)
    for row, tokens in zip(filled, ids, strict=True):
        row[: len(tokens)] = tokens
    return filled


def _scored(
    model: Model, batch: Batch, batch_size: int, dtype: str, mesh: Mesh | None
) -> tuple[np.ndarray, np.ndarray]:
    """-log p of every target, and whether it was the most probable token."""
    count = len(batch.targets)
    size = min(batch_size, power_of_two(count))
    if mesh is None:
        padded = pad_rows(batch, size)
    else:
        shards = row_shards(mesh)
        padded = put_batch(pad_rows(batch, -(-size // shards) * shards), batch_sharding(mesh))
    losses, correct = jax.device_get(score_batch(model, padded, dtype=dtype))
    return losses[:count], correct[:count]


def _sums(
    batch: Batch, losses: Float[np.ndarray, "batch seq"], correct: Bool[np.ndarray, "batch seq"]
) -> Iterator[OutputScore]:
    scored = batch.loss_mask > 0
    for row, places_scored in enumerate(scored):
        nats = losses[row, places_scored].sum(dtype=np.float64)
        greedy = correct[row, places_scored].all()
        yield OutputScore(-float(nats), int(places_scored.sum()), bool(greedy))

"""BART's denoising: shuffled sentences with spans masked; the target is the text as it was.

Lewis et al. 2020 (arXiv 1910.13461, section 2.2): sentences in random order, and text infilling,
where spans of Poisson length become one mask token each and a span of length 0 inserts one. What
the paper leaves open is done as in fairseq, the authors' program: spans are drawn until they add up
to the share of tokens, the last one shortened; they start at different places, may overlap, and
end where their text does; insertions go to places of their own afterwards.
"""

import math
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from jaxtyping import Bool, Int

from jax_lm.errors import JaxLMError, UsageError
from jax_lm.objectives.base import (
    RowDraws,
    Wanted,
    check_shares,
    first_ids,
    is_special,
    pad_id_of,
    places,
    shifted_right,
)
from jax_lm.objectives.masked_lm import mask_id_of
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.types import Batch, Rows


@dataclass(frozen=True, kw_only=True)
class DenoisingConfig:
    """Text is restored from shuffled sentences with spans masked, as BART trains."""

    name: Literal["denoising"] = "denoising"
    """The objective."""
    mask_ratio: float = 0.3
    """Share of the tokens in masked spans; special tokens stay and do not count."""
    poisson_lambda: float = 3.0
    """Mean length of the spans."""
    permute_ratio: float = 1.0
    """Share of each document's sentences that change places; more than 0 needs rows made with
    --sentences."""

    def __post_init__(self) -> None:
        """Refuse what is no share, and spans without a length.

        Raises:
            UsageError: a number is out of its range.
        """
        check_shares(self, "mask_ratio", "permute_ratio")
        if not 0.1 <= self.poisson_lambda <= 1000:
            raise UsageError(f"poisson_lambda is {self.poisson_lambda}, expected 0.1 to 1000")


@dataclass(frozen=True, kw_only=True, eq=False)
class Denoising:
    """Corrupts rows and asks for what they were."""

    config: DenoisingConfig
    length: int
    """Width of inputs and targets."""
    mask_id: int
    special: Bool[np.ndarray, "vocab"]
    """Ids that stay where they are: they begin, end and separate documents."""
    pad_id: int
    decoder_start_id: int

    @classmethod
    def of(cls, config: DenoisingConfig, tokenizer: Tokenizer, wanted: Wanted) -> Self:
        """The objective for a tokenizer and a model.

        Raises:
            JaxLMError: the tokenizer has no mask token, or targets cannot be as long as inputs.
        """
        if wanted.target_length not in (None, wanted.input_length):
            raise JaxLMError(
                f"objective {config.name} restores its inputs of {wanted.input_length} tokens, so "
                f"that the target length cannot be {wanted.target_length}: leave it out"
            )
        return cls(
            config=config,
            length=wanted.input_length,
            mask_id=mask_id_of(tokenizer, config.name),
            special=is_special(tokenizer),
            pad_id=pad_id_of(tokenizer),
            decoder_start_id=wanted.started(),
        )

    def __call__(self, rows: Rows, draws: RowDraws) -> Batch:
        """Corrupted inputs; targets are the rows themselves.

        Raises:
            JaxLMError: sentences are to change places and the rows do not say where they end.
        """
        ids, lengths = first_ids(rows, self.length)
        ends = rows.sentence_ends
        if ends is None and self.config.permute_ratio > 0:
            raise JaxLMError(
                "objective denoising shuffles sentences and the rows do not say where they end: "
                "preprocess with --sentences, or train with --objective.permute-ratio 0"
            )
        real = places(lengths, ids.shape[1])
        targets = np.where(real, ids, np.int32(self.pad_id))
        inputs, sizes = np.full_like(ids, self.pad_id), np.zeros_like(lengths)
        for row, length in enumerate(lengths.tolist()):
            random = draws.generator(row)
            text = ids[row, :length]
            if ends is not None and self.config.permute_ratio > 0:
                text = text[self._sentence_order(text, ends[row], random)]
            text = self._infilled(text, random)
            inputs[row, : len(text)] = text
            sizes[row] = len(text)
        return Batch(
            inputs,
            targets,
            real.astype(np.float32),
            places(sizes, ids.shape[1]).astype(np.int32),
            decoder_input_ids=shifted_right(targets, self.decoder_start_id),
        )

    def _sentence_order(
        self,
        ids: Int[np.ndarray, "length"],
        ends: Int[np.ndarray, "ends"],
        random: np.random.Generator,
    ) -> Int[np.ndarray, "length"]:
        """Places of a row with the sentences between two special tokens in another order."""
        special = self.special[ids]
        cut = np.zeros(len(ids) + 1, bool)
        cut[[0, -1]] = True
        cut[ends[(ends > 0) & (ends < len(ids))]] = True
        cut[:-1] |= special
        cut[1:] |= special
        cuts = np.flatnonzero(cut)
        starts, sizes = cuts[:-1], np.diff(cuts)
        fixed = np.append(special[starts], True)
        order, first = np.arange(len(starts)), 0
        for last in np.flatnonzero(fixed).tolist():
            if last - first > 1:
                order[first:last] = first + shuffled(last - first, self.config, random)
            first = last + 1
        starts, sizes = starts[order], sizes[order]
        moved: np.ndarray = np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
        return np.asarray(np.arange(len(ids)) + moved)

    def _infilled(
        self, ids: Int[np.ndarray, "length"], random: np.random.Generator
    ) -> Int[np.ndarray, "shorter"]:
        """A row with a mask token for each span that is drawn."""
        special = self.special[ids]
        ordinary = np.flatnonzero(~special)
        budget = math.ceil(len(ordinary) * self.config.mask_ratio)
        if budget == 0:
            return ids
        lengths = span_lengths(budget, self.config.poisson_lambda, random)
        spans = lengths[lengths > 0]
        starts = random.permutation(ordinary)[: len(spans)]
        walls = np.append(np.flatnonzero(special), len(ids))
        stops = np.minimum(starts + spans, walls[np.searchsorted(walls, starts)])
        depth = np.bincount(starts + 1, minlength=len(ids) + 1)
        depth -= np.bincount(stops, minlength=len(ids) + 1)
        masked = ids.copy()
        masked[starts] = self.mask_id
        masked = masked[np.cumsum(depth)[:-1] == 0]
        return self._with_insertions(masked, len(lengths) - len(spans), random)

    def _with_insertions(
        self, ids: Int[np.ndarray, "length"], count: int, random: np.random.Generator
    ) -> Int[np.ndarray, "longer"]:
        """A row with mask tokens between its first and last token, as many as there is room for."""
        count = min(count, self.length - len(ids))
        if count <= 0 or len(ids) < 2:
            return ids
        whole = np.full(len(ids) + count, self.mask_id, ids.dtype)
        inserted = np.zeros(len(whole), bool)
        inserted[1 + random.permutation(len(whole) - 2)[:count]] = True
        whole[~inserted] = ids
        return whole


def shuffled(
    count: int, config: DenoisingConfig, random: np.random.Generator
) -> Int[np.ndarray, "count"]:
    """An order of ``count`` sentences: as many as the ratio says change places among themselves."""
    moving = random.permutation(count)[: math.ceil(count * config.permute_ratio)]
    order = np.arange(count)
    order[moving] = random.permutation(moving)
    return order


def span_lengths(
    budget: int, poisson_lambda: float, random: np.random.Generator
) -> Int[np.ndarray, "spans"]:
    """Lengths of spans, some of them 0, that add up to ``budget``; the last is shortened."""
    lengths = random.poisson(poisson_lambda, budget)
    while (total := np.cumsum(lengths))[-1] < budget:
        lengths = np.append(lengths, random.poisson(poisson_lambda, budget))
    last = int(np.searchsorted(total, budget))
    lengths[last] -= total[last] - budget
    return np.asarray(lengths[: last + 1])

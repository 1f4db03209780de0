"""T5's and BART's corruption against restatements of the published algorithms, by chi-square."""

import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from jax_lm.objectives.denoising import DenoisingConfig
from jax_lm.objectives.span_corruption import SpanCorruptionConfig, noise_of
from jax_lm.types import Rows
from tests.objectives.objective_fakes import (
    BOS,
    EOS,
    FIRST,
    LAST,
    MASK,
    PAD,
    draws,
    objective,
)  # fmt: skip

COUNTS = [5_000, pytest.param(100_000, marks=pytest.mark.slow)]
LEAST = 0.001
RARE = 20
"""Outcomes seen less often, in both samples together, count as one."""


def p_value(ours: Counter, theirs: Counter) -> float:
    """That two samples are of one distribution (Pearson's test of homogeneity)."""
    seen = ours + theirs
    common = [outcome for outcome, count in seen.items() if count >= RARE]
    table = [[sample[outcome] for outcome in common] for sample in (ours, theirs)]
    rest = [
        sum(sample.values()) - sum(row) for sample, row in zip((ours, theirs), table, strict=True)
    ]
    if sum(rest) >= RARE:
        table = [[*row, other] for row, other in zip(table, rest, strict=True)]
    assert len(table[0]) > 20
    return float(chi2_contingency(table).pvalue)


def outcomes(batch_ids: np.ndarray) -> Counter:
    return Counter(map(bytes, np.ascontiguousarray(batch_ids, np.int16)))


def test_different_samples_are_told_apart() -> None:
    random = np.random.default_rng(0)
    one, other = random.binomial(60, 0.5, 5000), random.binomial(60, 0.52, 5000)
    assert p_value(Counter(one.tolist()), Counter(other.tolist())) < 1e-6


def random_spans(random: np.random.Generator, count: int, length: int, noise: int, spans: int):
    """T5's noise masks: numbers of items cut by shuffling which of them begin a segment."""

    def segments(items: int) -> np.ndarray:
        begins = np.tile(np.arange(items - 1) < spans - 1, (count, 1))
        number = np.cumsum(np.pad(random.permuted(begins, axis=1), ((0, 0), (1, 0))), axis=1)
        return np.stack([(number == segment).sum(axis=1) for segment in range(spans)], axis=1)

    noisy, others = segments(noise), segments(length - noise)
    sizes = np.stack([others, noisy], axis=2).reshape(count, 2 * spans)
    starts = np.cumsum(sizes, axis=1)[:, :-1]
    return (np.arange(length)[None, :, None] >= starts[:, None, :]).sum(axis=2) % 2 == 1


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(("density", "mean"), [(0.3, 2.0), (0.5, 2.0)])
def test_spans_are_t5s(count: int, density: float, mean: float) -> None:
    length = 14
    config = SpanCorruptionConfig(noise_density=density, mean_noise_span_length=mean)
    width = next(n for n in range(4, 40) if config.lengths(n).raw >= length)
    make = objective(config, "encoder-decoder", width)
    ids = np.arange(FIRST, FIRST + length)
    batch = make(Rows(np.tile(ids, (count, 1)), np.full(count, length)), draws(count, seed=1))
    ours = (batch.input_ids[:, :, None] == ids).any(axis=1)  # which ids are left
    noise = noise_of(length, density, mean)
    theirs = ~random_spans(np.random.default_rng(2), count, length, noise.tokens, noise.spans)
    assert noise.spans > 1
    assert p_value(outcomes(ours), outcomes(theirs)) > LEAST


def fairseq_permuted(random: np.random.Generator, ids: list[int], ends: list[int], ratio: float):
    """Sentences between the first and the last token, some of which change places."""
    starts = [1, *ends[:-1]]
    sentences = [ids[start:end] for start, end in zip(starts, ends, strict=True)]
    moved = math.ceil(len(sentences) * 2 * ratio / 2.0)
    chosen = random.permutation(len(sentences))[:moved]
    order = np.arange(len(sentences))
    order[chosen] = chosen[random.permutation(moved)]
    return [ids[0], *(token for place in order for token in sentences[place]), ids[-1]]


def fairseq_infilled(random: np.random.Generator, ids: list[int], ratio: float, mean: float):
    """Spans run on token by token until their length is used up or the last token is reached."""
    to_mask = math.ceil((len(ids) - 2) * ratio)
    lengths = []
    while sum(lengths) < to_mask:
        lengths.append(int(random.poisson(mean)))
    lengths[-1] -= sum(lengths) - to_mask
    spans = [length for length in lengths if length > 0]
    inserts = len(lengths) - len(spans)
    starts = 1 + random.choice(len(ids) - 2, size=len(spans), replace=False)
    source, keep = list(ids), [True] * len(ids)
    for start in starts:
        source[start] = MASK
    for start, length in zip(starts, spans, strict=True):
        for place in range(start + 1, min(start + length, len(ids) - 1)):
            keep[place] = False
    source = [token for token, kept in zip(source, keep, strict=True) if kept]
    total = len(source) + inserts
    noise = set((1 + random.choice(total - 2, size=inserts, replace=False)).tolist())
    rest = iter(source)
    return [MASK if place in noise else next(rest) for place in range(total)]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    ("mask", "mean", "permute"),
    [(0.3, 3.0, 1.0), (0.5, 1.0, 0.0), (0.6, 2.0, 0.5)],
    ids=["as published", "short spans with insertions", "half of the sentences"],
)
def test_noise_is_barts(count: int, mask: float, mean: float, permute: float) -> None:
    ids = [BOS, *range(FIRST, FIRST + 7), EOS]
    ends, width = [3, 6, 8], 24
    config = DenoisingConfig(mask_ratio=mask, poisson_lambda=mean, permute_ratio=permute)
    make = objective(config, "encoder-decoder", width)
    line = np.array([*ids, *[PAD] * (width - len(ids))])
    rows = Rows(
        np.tile(line, (count, 1)), np.full(count, len(ids)),
        sentence_ends=np.tile(np.array([*ends, -1]), (count, 1)),
    )  # fmt: skip
    ours = outcomes(make(rows, draws(count, seed=4)).input_ids)
    random, theirs = np.random.default_rng(5), Counter()
    for _ in range(count):
        moved = fairseq_permuted(random, ids, ends, permute) if permute else ids
        found = fairseq_infilled(random, moved, mask, mean)
        theirs[np.array([*found, *[PAD] * (width - len(found))], np.int16).tobytes()] += 1
    assert p_value(ours, theirs) > LEAST


def test_a_row_loses_as_many_tokens_as_barts() -> None:
    count, length = 400, 256
    ids = [BOS, *(FIRST + place % (LAST - FIRST) for place in range(length - 2)), EOS]
    make = objective(DenoisingConfig(permute_ratio=0.0), "encoder-decoder", length)
    batch = make(Rows(np.tile(ids, (count, 1)), np.full(count, length)), draws(count))
    ours = (batch.input_ids >= FIRST).sum(axis=1)
    random = np.random.default_rng(0)
    runs = [fairseq_infilled(random, ids, 0.3, 3.0) for _ in range(count)]
    theirs = np.array([sum(token >= FIRST for token in run) for run in runs])
    error = math.sqrt((ours.var() + theirs.var()) / count)
    assert abs(ours.mean() - theirs.mean()) < 3 * error
    assert 0.2 < 1 - ours.mean() / (length - 2) < 0.3

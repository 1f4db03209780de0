"""Confidence intervals of ratios of sums, by drawing documents again.

A number such as bits per byte is R = sum(y) / sum(x) over documents, and documents are what a
larger sample would bring more of. Documents are drawn with replacement, R* and its standard error
se* are computed of every draw, and the interval is R -+ q * se, q the 95 % quantile of
|R* - R| / se*: the symmetric studentised bootstrap (Hall 1988, "On symmetric bootstrap confidence
intervals", JRSS B 50). The standard error of a ratio is the usual linearisation (Cochran 1977,
"Sampling Techniques", section 6.3). Intervals of plain percentiles, and those with BCa's
correction, are too narrow where few documents of very different sizes are scored: of 1,000 sets of
25 to 50 such documents they held the true value 87 to 92 times in a hundred, these 94 to 95.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

LEVEL = 0.95
METHOD = "symmetric studentised bootstrap"
FEWEST = 10
"""Documents that an interval needs."""
ROUNDING = 1e-12
"""A standard error below this share of the value is none: all documents are alike."""
DRAWN_AT_ONCE = 1 << 20
"""Documents of several resamples held in memory together."""


class Interval(NamedTuple):
    """Bounds that hold the value of a larger sample in 95 of 100 samples."""

    low: float
    high: float


class Resampled(NamedTuple):
    """A number of a sample, and of what was drawn again from it."""

    value: float
    error: float
    """Standard error."""
    values: Float[np.ndarray, "resamples"]
    errors: Float[np.ndarray, "resamples"]

    def interval(self) -> Interval:
        """The symmetric studentised interval."""
        if self.error <= ROUNDING * abs(self.value):
            return Interval(self.value, self.value)
        apart = np.abs(self.values - self.value)
        # Of a draw without any spread nothing is known; one at the value itself lies inside.
        with np.errstate(divide="ignore", invalid="ignore"):
            students = np.where(apart > 0, apart / self.errors, 0.0)
        reach = float(np.quantile(students, LEVEL, method="higher")) * self.error
        return Interval(self.value - reach, self.value + reach)


def resampled_ratios(
    numerators: Float[np.ndarray, "documents ratios"],
    denominators: Float[np.ndarray, "documents ratios"],
    *,
    resamples: int,
    seed: int,
) -> list[Resampled]:
    """Every ratio of sums over documents; all of them come of the same draws.

    Args:
        numerators: of every document.
        denominators: of every document; their sums are above 0.
        resamples: how often documents are drawn.
        seed: decides the draws.
    """
    documents, ratios = numerators.shape
    totals = denominators.sum(0)
    values = numerators.sum(0) / totals
    left = numerators - values * denominators
    columns = (denominators, left, left * left, left * denominators, denominators * denominators)
    stacked = np.concatenate(columns, axis=1)
    draws = [counts @ stacked for counts in _draws(documents, resamples, seed)]
    sums = np.concatenate(draws).reshape(resamples, len(columns), ratios)
    drawn, off, squares, mixed, sizes = (sums[:, index] for index in range(len(columns)))
    off = off / drawn
    spread = np.maximum(squares - 2 * off * mixed + off * off * sizes, 0)
    few = documents / max(documents - 1, 1)
    errors = np.sqrt(few * spread) / drawn
    error = np.sqrt(few * (left * left).sum(0)) / totals
    return [
        Resampled(float(values[i]), float(error[i]), values[i] + off[:, i], errors[:, i])
        for i in range(ratios)
    ]


def mean_of(parts: Sequence[Resampled]) -> Resampled:
    """The plain mean of numbers of independent samples, such as subsets."""
    return Resampled(
        float(np.mean([part.value for part in parts])),
        float(np.sqrt(np.sum([part.error**2 for part in parts])) / len(parts)),
        np.mean([part.values for part in parts], axis=0),
        np.sqrt(np.sum([part.errors**2 for part in parts], axis=0)) / len(parts),
    )


def _draws(
    documents: int, resamples: int, seed: int
) -> Iterator[Float[np.ndarray, "part documents"]]:
    """How often each document comes in each resample, a part of the resamples at a time."""
    draws = np.random.default_rng(seed)
    at_once = max(1, DRAWN_AT_ONCE // documents)
    for start in range(0, resamples, at_once):
        part = min(at_once, resamples - start)
        drawn = draws.integers(0, documents, (part, documents))
        drawn += np.arange(part)[:, None] * documents
        counts = np.bincount(drawn.ravel(), minlength=part * documents)
        yield counts.reshape(part, documents).astype(np.float64)

"""What an evaluation found, for people and for programs."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from jax_lm.evaluation.results.bootstrap import (
    FEWEST,
    LEVEL,
    METHOD,
    Interval,
    Resampled,
    mean_of,
    resampled_ratios,
)
from jax_lm.evaluation.scoring.scores import SUMS, Scores, exponential, total
from jax_lm.evaluation.scoring.tally import Tally

RATIOS = {"loss": ("loss_sum", "weight_sum"), "bits_per_byte": ("text_nats", "num_bytes")}
"""The numbers with an interval: sums over documents that each is the ratio of."""
UNITS = {"loss": 1.0, "bits_per_byte": 1 / math.log(2)}
MEANS = ("loss", "accuracy", "bits_per_byte")


class Resampling(NamedTuple):
    """How documents are drawn for intervals."""

    resamples: int = 2000
    """0: no intervals."""
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The numbers of a model on some text, with what they mean."""

    model: str
    source: str
    method: str
    """The method and its settings."""
    unit: Literal["documents", "rows"]
    """What was scored one by one, and is drawn again for intervals."""
    tally: Tally
    resampling: Resampling = field(default_factory=Resampling)
    compressors: Mapping[str, float] = field(default_factory=dict)
    """Bits per byte that compressors reach on the same documents."""
    step: int | None = None
    """Of the checkpoint, where that is known."""

    @property
    def counted(self) -> str:
        """How much was scored, such as ``31 documents``."""
        return counted(len(self.tally), self.unit)

    @cached_property
    def scores(self) -> dict[str, Scores]:
        """By subset."""
        return self.tally.scores()

    @cached_property
    def everything(self) -> Scores:
        """Of all subsets together."""
        return total(self.scores)

    @cached_property
    def has_subsets(self) -> bool:
        """Whether there is more than one."""
        return len(self.scores) > 1

    @property
    def main_number(self) -> str:
        """The one to quote: bits per byte where they are known, else the loss."""
        return "bits_per_byte" if self.everything.num_bytes else "loss"

    @cached_property
    def intervals(self) -> dict[str | None, dict[str, Interval]]:
        """By subset, None for all of them together; none where there are too few documents."""
        return {
            name: {number: drawn.interval() for number, drawn in found.items()}
            for name, found in self._drawn.items()
        }

    @cached_property
    def subset_mean(self) -> dict[str, float]:
        """The plain mean of the subsets' numbers; a perplexity is exp of the mean loss."""
        known = [scores.numbers() for scores in self.scores.values() if scores.num_tokens]
        means = {
            name: float(np.mean([numbers[name] for numbers in known]))
            for name in MEANS
            if all(name in numbers for numbers in known)
        }
        return {**means, "perplexity": exponential(means["loss"])}

    @cached_property
    def subset_mean_intervals(self) -> dict[str, Interval]:
        """Of that mean; none unless every subset has one."""
        drawn = [self._drawn[name] for name, one in self.scores.items() if one.num_tokens]
        return {
            name: mean_of([found[name] for found in drawn]).interval()
            for name in RATIOS
            if all(name in found for found in drawn)
        }

    @cached_property
    def _drawn(self) -> dict[str | None, dict[str, Resampled]]:
        subsets: list[str | None] = [None, *self.scores]
        if not self.has_subsets:
            alone = self._drawn_of(None, 0)
            return dict.fromkeys(subsets, alone)
        return {name: self._drawn_of(name, number) for number, name in enumerate(subsets)}

    def _drawn_of(self, subset: str | None, number: int) -> dict[str, Resampled]:
        sums = self.tally.scored(subset)
        totals = sums.sum(0)
        ratios = {
            name: (SUMS.index(top), SUMS.index(bottom))
            for name, (top, bottom) in RATIOS.items()
            if totals[SUMS.index(bottom)] > 0
        }
        if len(sums) < FEWEST or not self.resampling.resamples or not ratios:
            return {}
        units = [UNITS[name] for name in ratios]
        drawn = resampled_ratios(
            sums[:, [top for top, _ in ratios.values()]] * units,
            sums[:, [bottom for _, bottom in ratios.values()]],
            resamples=self.resampling.resamples,
            seed=self.resampling.seed + number,
        )
        return dict(zip(ratios, drawn, strict=True))

    @property
    def how_intervals(self) -> str:
        """How they were made, or why there are none."""
        resamples, seed = self.resampling
        if not resamples:
            return "none asked for"
        if not self._drawn[None]:
            count = len(self.tally.scored())
            verb = "is" if count == 1 else "are"
            few = f"{counted(count, self.unit)} {verb} too few"
            return f"none: {few} (at least {FEWEST} are needed)"
        return (
            f"{LEVEL:.0%}, {METHOD} over {self.unit}, {resamples:,} resamples, seed {seed}; a "
            f"subset needs at least {FEWEST} {self.unit}"
        )

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values; what is not finite is null."""
        values = {
            **self._values(None, self.everything),
            **{name: getattr(self, name) for name in ("model", "step", "source", "method")},
            "counted": self.counted,
            "intervals": {
                "how": self.how_intervals,
                "level": LEVEL,
                "method": METHOD,
                "unit": self.unit,
                **self.resampling._asdict(),
            },
            "compressors_bits_per_byte": dict(self.compressors),
            "sums": asdict(self.everything),
            "subsets": {
                name: {
                    **self._values(name, scores),
                    self.unit: len(self.tally.scored(name)),
                    "tokens": scores.num_tokens,
                    "bytes": scores.num_bytes,
                }
                for name, scores in self.scores.items()
                if name or self.has_subsets
            },
        }
        if self.has_subsets:
            values["mean_over_subsets"] = _prefixed(self.subset_mean, self.subset_mean_intervals)
        clean: dict[str, Any] = finite(values)
        return clean

    def table(self) -> str:
        """The numbers for a person."""
        from jax_lm.evaluation.results.table import table

        return table(self)

    def _values(self, subset: str | None, scores: Scores) -> dict[str, Any]:
        return _prefixed(scores.numbers(), self.intervals[subset])


def counted(count: int, unit: str) -> str:
    """A number with its unit, which is given in the plural: ``1 document``."""
    return f"{count:,} {unit.removesuffix('s') if count == 1 else unit}"


def _prefixed(numbers: Mapping[str, float], intervals: Mapping[str, Interval]) -> dict[str, Any]:
    values: dict[str, Any] = {f"eval_{name}": value for name, value in numbers.items()}
    for name in RATIOS:
        if name in numbers:
            bounds = intervals.get(name)
            values[f"eval_{name}_interval"] = None if bounds is None else list(bounds)
    return values


def finite(value: Any) -> Any:
    """JSON values with null in the place of numbers that are not finite, which JSON lacks."""
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

"""How close what a model writes after inputs is to the outputs that were expected.

Exact match and ROUGE compare each text with its reference; distinct-n (Li et al. 2016,
arXiv:1510.03055) is the share of different ones among all n-grams that were written, words being
what white space separates. Standard errors are those of means over texts, and of distinct-n the
jackknife's, which leaves out one text at a time.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from jax_lm.evaluation.generated.rouge import WordKind, rouge_1, rouge_l, words


class Generated(NamedTuple):
    """One text that was written."""

    id: str
    """Of the document."""
    prompt: str
    reference: str
    text: str
    num_tokens: int
    finish: str
    """``stop``: a token ended it; ``length``: it is as long as it may be."""

    def to_json(self) -> dict[str, Any]:
        """As a record of a JSON lines file."""
        names = {"id": self.id, "prompt": self.prompt, "reference": self.reference}
        return {**names, "generation": self.text, "tokens": self.num_tokens, "finish": self.finish}


class Measure(NamedTuple):
    """A number and its standard error."""

    value: float
    error: float
    """NaN where there are too few texts to tell."""


@dataclass(frozen=True, kw_only=True)
class GenerationResult:
    """The numbers of a model on some pairs, with what they mean."""

    model: str
    source: str
    method: str
    """How the texts were written and compared."""
    count: int
    """Texts."""
    measures: dict[str, Measure]

    def table(self) -> str:
        """The numbers for a person."""
        lines = [
            f"model      {self.model}",
            f"pairs      {self.source}: {self.count:,} inputs with an output",
            f"method     {self.method}",
            "",
            f"{'measure':<22}{'value':>10}{'standard error':>18}",
        ]
        for name, (value, error) in self.measures.items():
            shown = "-" if math.isnan(error) else f"{error:.4f}"
            lines.append(f"{name.replace('_', ' '):<22}{value:>10.4f}{shown:>18}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values."""
        values: dict[str, Any] = {}
        for name, (value, error) in self.measures.items():
            values[f"eval_{name}"] = value
            values[f"eval_{name}_stderr"] = None if math.isnan(error) else error
        described = {name: getattr(self, name) for name in ("model", "source", "method", "count")}
        return {**values, **described}


def measure(texts: Sequence[Generated], kind: WordKind = "ascii") -> dict[str, Measure]:
    """The numbers of at least one text.

    Args:
        texts: what was written, with what was expected.
        kind: what counts as a word of ROUGE.
    """
    cut = [(words(one.reference, kind), words(one.text, kind)) for one in texts]
    return {
        "exact_match": _mean([float(one.text.strip() == one.reference.strip()) for one in texts]),
        "rouge1": _mean([rouge_1(*pair) for pair in cut]),
        "rougeL": _mean([rouge_l(*pair) for pair in cut]),
        "distinct_2": distinct([one.text for one in texts], 2),
        "distinct_3": distinct([one.text for one in texts], 3),
        "length_in_tokens": _mean([float(one.num_tokens) for one in texts]),
    }


def distinct(texts: Sequence[str], length: int) -> Measure:
    """Different n-grams of ``length`` words over all there are; 0 where there is none."""
    counts = [_ngrams(text.split(), length) for text in texts]
    every: Counter[tuple[str, ...]] = Counter()
    for one in counts:
        every.update(one)
    if not every:
        return Measure(0.0, math.nan)
    left_out = []
    for one in counts:
        different = len(every) - sum(every[ngram] == count for ngram, count in one.items())
        left_out.append(different / max(1, every.total() - one.total()))
    return Measure(len(every) / every.total(), _jackknife(np.array(left_out)))


def _ngrams(tokens: Sequence[str], length: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(tokens[start:] for start in range(length)), strict=False))


def _jackknife(values: Float[np.ndarray, "texts"]) -> float:
    if len(values) < 2:
        return math.nan
    squares = np.square(values - values.mean()).sum()
    return math.sqrt((len(values) - 1) / len(values) * squares)


def _mean(values: Sequence[float]) -> Measure:
    error = math.nan
    if len(values) > 1:
        error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return Measure(float(np.mean(values)), error)

"""The sums that every evaluation number is a ratio of."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Sums over scored tokens; two sets' sums add up to the sums of their union."""

    loss_sum: float = 0.0
    """Sum of weight * -log p, in nats."""
    weight_sum: float = 0.0
    correct_sum: float = 0.0
    """Sum of weight where the target was the most probable token."""
    text_nats: float = 0.0
    """Sum of -log p over scored tokens that spell text."""
    num_bytes: int = 0
    """UTF-8 bytes those tokens spell."""
    num_tokens: int = 0
    """Scored tokens."""
    num_words: int = 0
    """Pieces between white space of the scored text; 0 where the text is not at hand."""

    def __add__(self, other: "Scores") -> "Scores":
        """Sums of the union."""
        return Scores(**{name: getattr(self, name) + getattr(other, name) for name in vars(self)})

    @classmethod
    def of(cls, sums: Sequence[float]) -> "Scores":
        """From numbers in the order of ``SUMS``."""
        values: dict[str, Any] = {
            name: round(value) if name in COUNTS else float(value)
            for name, value in zip(SUMS, sums, strict=True)
        }
        return cls(**values)

    @property
    def loss(self) -> float:
        """Mean weighted -log p, in nats a token."""
        return _ratio(self.loss_sum, self.weight_sum)

    @property
    def perplexity(self) -> float:
        """exp(loss); infinite where that overflows."""
        return exponential(self.loss)

    @property
    def accuracy(self) -> float:
        """Share of scored tokens that were the most probable one, weighted as the loss is."""
        return _ratio(self.correct_sum, self.weight_sum)

    @property
    def bits_per_byte(self) -> float:
        """-log2 p of the tokens that spell text, over the UTF-8 bytes they spell."""
        return _ratio(self.text_nats, math.log(2) * self.num_bytes)

    @property
    def byte_perplexity(self) -> float:
        """exp(-log p of the tokens that spell text / the UTF-8 bytes they spell)."""
        return exponential(_ratio(self.text_nats, self.num_bytes))

    @property
    def word_perplexity(self) -> float:
        """exp(-log p of the tokens that spell text / the words of the text)."""
        return exponential(_ratio(self.text_nats, self.num_words))

    def metrics(self, prefix: str) -> dict[str, float]:
        """The numbers of training under ``prefix/``; bits per byte where targets spell text."""
        names = ["loss", "perplexity", "accuracy"] + ["bits_per_byte"] * bool(self.num_bytes)
        return {f"{prefix}/{name}": getattr(self, name) for name in names}

    def numbers(self) -> dict[str, float]:
        """All numbers by name, without those whose bytes or words are not known."""
        names = ["loss", "perplexity", "accuracy"]
        names += ["bits_per_byte", "byte_perplexity"] * bool(self.num_bytes)
        names += ["word_perplexity"] * bool(self.num_words)
        return {name: getattr(self, name) for name in names}


SUMS = tuple(vars(Scores()))
"""The sums, in the order of an array's last axis."""
COUNTS = ("num_bytes", "num_tokens", "num_words")
"""Those that are whole numbers."""


def token_sums(
    losses: Float[np.ndarray, "rows seq"],
    correct: Bool[np.ndarray, "rows seq"],
    weights: Float[np.ndarray, "rows seq"],
    target_bytes: Int[np.ndarray, "rows seq"],
    is_text: Bool[np.ndarray, "rows seq"] | None = None,
) -> Float[np.ndarray, "rows sums"]:
    """The sums of every row, in the order of ``SUMS`` and in float64; they hold no words.

    Args:
        losses: -log p of every target, in nats.
        correct: whether the target was the most probable token.
        weights: 0 where a target is not scored.
        target_bytes: UTF-8 bytes each target spells; 0 for special tokens.
        is_text: which targets are text rather than special tokens; None: those that spell bytes.
    """
    weights = weights.astype(np.float64)
    scored = weights > 0
    losses = np.where(scored, losses, 0).astype(np.float64)
    spelled = scored & (target_bytes > 0 if is_text is None else is_text)
    sums = {
        "loss_sum": losses * weights,
        "weight_sum": weights,
        "correct_sum": correct * weights,
        "text_nats": np.where(spelled, losses, 0),
        "num_bytes": np.where(spelled, target_bytes, 0).astype(np.int64),
        "num_tokens": scored,
        "num_words": np.zeros(weights.shape, bool),
    }
    return np.stack([sums[name].sum(axis=1).astype(np.float64) for name in SUMS], axis=1)


def total(scores: Mapping[str, Scores]) -> Scores:
    """Scores of all subsets together."""
    return sum(scores.values(), Scores())


def exponential(value: float) -> float:
    """exp(value); infinite where that overflows."""
    return math.inf if value >= 700 else math.exp(value)


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else math.nan

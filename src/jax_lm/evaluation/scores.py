"""The sums that every evaluation number is a ratio of."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

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

    def __add__(self, other: "Scores") -> "Scores":
        """Sums of the union."""
        return Scores(**{name: getattr(self, name) + getattr(other, name) for name in vars(self)})

    @property
    def loss(self) -> float:
        """Mean weighted -log p, in nats a token."""
        return self.loss_sum / self.weight_sum if self.weight_sum else math.nan

    @property
    def perplexity(self) -> float:
        """exp(loss); infinite where that overflows."""
        return math.exp(self.loss) if self.loss < 700 else math.inf

    @property
    def accuracy(self) -> float:
        """Share of scored tokens that were the most probable one, weighted as the loss is."""
        return self.correct_sum / self.weight_sum if self.weight_sum else math.nan

    @property
    def bits_per_byte(self) -> float:
        """-log2 p of the tokens that spell text, over the UTF-8 bytes they spell."""
        return self.text_nats / (math.log(2) * self.num_bytes) if self.num_bytes else math.nan

    def metrics(self, prefix: str) -> dict[str, float]:
        """The numbers under ``prefix/``; bits per byte where the targets spell text."""
        names = ["loss", "perplexity", "accuracy"] + ["bits_per_byte"] * bool(self.num_bytes)
        return {f"{prefix}/{name}": getattr(self, name) for name in names}


def sum_scores(
    losses: Float[np.ndarray, "*shape"],
    correct: Bool[np.ndarray, "*shape"],
    weights: Float[np.ndarray, "*shape"],
    target_bytes: Int[np.ndarray, "*shape"],
    is_text: Bool[np.ndarray, "*shape"] | None = None,
) -> Scores:
    """Scores of some tokens, summed in float64.

    Args:
        losses: -log p of every target, in nats.
        correct: whether the target was the most probable token.
        weights: 0 where a target is not scored.
        target_bytes: UTF-8 bytes each target spells; 0 for special tokens.
        is_text: which targets are text rather than special tokens; None: those that spell bytes.
    """
    weights = weights.astype(np.float64)
    losses = losses.astype(np.float64)
    scored = weights > 0
    spelled = scored & (target_bytes > 0 if is_text is None else is_text)
    return Scores(
        loss_sum=float((losses[scored] * weights[scored]).sum()),
        weight_sum=float(weights.sum()),
        correct_sum=float((correct * weights).sum()),
        text_nats=float(losses[spelled].sum()),
        num_bytes=int(target_bytes[spelled].sum(dtype=np.int64)),
        num_tokens=int(scored.sum()),
    )


def total(scores: Mapping[str, Scores]) -> Scores:
    """Scores of all subsets together."""
    return sum(scores.values(), Scores())

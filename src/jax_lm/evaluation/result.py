"""What an evaluation found, for people and for programs."""

from dataclasses import asdict, dataclass, field
from typing import Any

from jax_lm.evaluation.scores import Scores, total


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The numbers of a model on some text, with what they mean."""

    model: str
    source: str
    method: str
    """The method and its settings."""
    counted: str
    """How much was scored, such as ``31 documents``."""
    scores: dict[str, Scores]
    """By subset."""
    compressors: dict[str, float] = field(default_factory=dict)
    """Bits per byte that compressors reach on the same documents."""

    def table(self) -> str:
        """The numbers for a person."""
        everything = total(self.scores)
        rows = [("all", everything)]
        if len(self.scores) > 1:
            rows += [(name or "unnamed", scores) for name, scores in sorted(self.scores.items())]
        width = max(len(name) for name, _ in rows)
        lines = [
            f"model      {self.model}",
            f"text       {self.source}: {self.counted}"
            + (f", {everything.num_bytes:,} UTF-8 bytes scored" if everything.num_bytes else ""),
            f"method     {self.method}",
            "",
            f"{'subset':<{width + 2}}      tokens     loss  perplexity  accuracy  bits per byte",
            *(_row(name, scores, width) for name, scores in rows),
        ]
        if self.compressors:
            others = ", ".join(f"{name} {value:.4f}" for name, value in self.compressors.items())
            lines += ["", f"bits per byte of compressors, documents one by one: {others}"]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {
            **total(self.scores).metrics("eval"),
            **{name: getattr(self, name) for name in ("model", "source", "method", "counted")},
            "compressors_bits_per_byte": self.compressors,
            "sums": asdict(total(self.scores)),
            "subsets": {name: scores.metrics("eval") for name, scores in self.scores.items()},
        }


def _row(name: str, scores: Scores, width: int) -> str:
    bits = f"{scores.bits_per_byte:>15.4f}" if scores.num_bytes else f"{'-':>15}"
    return (
        f"{name:<{width + 2}}{scores.num_tokens:>12,}{scores.loss:>9.4f}{scores.perplexity:>12.3f}"
        f"{scores.accuracy:>10.4f}{bits}"
    )

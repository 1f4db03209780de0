"""Evaluates a MODEL on SPECs: the work behind ``jax-lm evaluate``."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jax_lm.documents.base import Cursor, DocumentSource
from jax_lm.documents.open import open_source
from jax_lm.documents.reading import ReadingOptions
from jax_lm.errors import JaxLMError
from jax_lm.evaluation.compression import CompressionYardstick
from jax_lm.evaluation.perplexity import Method, evaluate_documents, method_config
from jax_lm.evaluation.scores import Scores, total
from jax_lm.pretrained import open_model
from jax_lm.tokenizers.base import start_id
from jax_lm.trackers.console import Progress
from jax_lm.types import Document


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(ReadingOptions):
    """How documents are scored."""

    method: Method = "rolling"
    window: int | None = None
    """Inputs of a window in tokens; None: the model's context length."""
    context_length: int | None = None
    """Context of rolling windows in tokens; None: half the window."""
    batch_size: int = 16
    dtype: str = "float32"
    compressors: bool = True
    """Also compress the documents, for comparison."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The numbers of a model on some text, with what they mean."""

    model: str
    source: str
    method: str
    """The method and its settings."""
    num_documents: int
    scores: dict[str, Scores]
    """By subset."""
    compressors: dict[str, float]
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
            f"text       {self.source}: {self.num_documents:,} documents, "
            f"{everything.num_bytes:,} UTF-8 bytes scored",
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
            **{name: getattr(self, name) for name in ("model", "source", "method")},
            "num_documents": self.num_documents,
            "compressors_bits_per_byte": self.compressors,
            "sums": asdict(total(self.scores)),
            "subsets": {name: scores.metrics("eval") for name, scores in self.scores.items()},
        }


def evaluate(model: str, specs: Sequence[str], options: EvaluateOptions) -> Evaluation:
    """Score documents with a model.

    Args:
        model: MODEL.
        specs: SPECs, read one after another.
        options: method and limits.

    Raises:
        JaxLMError: the model or the text cannot be read, or there is nothing to score.
    """
    opened = open_model(model)
    config = method_config(
        options.method,
        window=options.window,
        context=options.context_length,
        model_context=opened.model.config.context_length,
    )
    source = open_source(specs, options)
    yardstick = CompressionYardstick()
    seen = _Seen(source, yardstick.add if options.compressors else lambda text: None)
    with Progress(None, "tokens", label="scored") as progress:
        scores = evaluate_documents(
            opened.model,
            opened.tokenizer,
            seen,
            config,
            batch_size=options.batch_size,
            dtype=options.dtype,
            advance=progress.update,
        )
    if not total(scores).num_tokens:
        raise JaxLMError(f"{source.name}: no tokens to score in {seen.count} documents")
    return Evaluation(
        model=str(opened.path),
        source=source.name,
        method=config.describe(start_id(opened.tokenizer)),
        num_documents=seen.count,
        scores=scores,
        compressors=yardstick.bits_per_byte(),
    )


class _Seen:
    """The documents of a source, counted and shown to ``look`` as they pass."""

    def __init__(self, source: DocumentSource, look: Callable[[str], None]) -> None:
        self._source, self._look = source, look
        self.count = 0

    def __iter__(self) -> Iterator[Document]:
        for _, document in self._source.read(Cursor(0, 0)):
            self.count += 1
            self._look(document.text)
            yield document


def _row(name: str, scores: Scores, width: int) -> str:
    return (
        f"{name:<{width + 2}}{scores.num_tokens:>12,}{scores.loss:>9.4f}{scores.perplexity:>12.3f}"
        f"{scores.accuracy:>10.4f}{scores.bits_per_byte:>15.4f}"
    )

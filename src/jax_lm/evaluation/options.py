"""How a model is evaluated."""

from dataclasses import dataclass

from jax_lm.documents.reading import ReadingOptions
from jax_lm.evaluation.perplexity import Method


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
    objective: str | None = None
    """Score what an objective asks for, over feature rows; None: as the model was trained, and
    documents for a decoder."""
    compressors: bool = True
    """Also compress the documents, for comparison."""

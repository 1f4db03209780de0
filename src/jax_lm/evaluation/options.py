"""How a model is evaluated."""

from dataclasses import dataclass

from jax_lm.documents.reading import ReadingOptions
from jax_lm.errors import UsageError
from jax_lm.evaluation.perplexity import Method


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(ReadingOptions):
    """How documents are scored."""

    method: Method | None = None
    """None: rolling, where documents are scored."""
    window: int | None = None
    """Inputs of a window in tokens; None: the model's context length."""
    context_length: int | None = None
    """Context of rolling windows in tokens; None: half the window."""
    batch_size: int = 16
    """Windows or rows scored at once."""
    dtype: str = "float32"
    objective: str | None = None
    """Score what an objective asks for, over feature rows; None: as the model was trained, and
    documents for a decoder."""
    compressors: bool = True
    """Also compress the documents, for comparison."""

    def __post_init__(self) -> None:
        """Refuse batches of nothing."""
        super().__post_init__()
        if self.batch_size < 1:
            raise UsageError(f"--batch-size is {self.batch_size}, expected 1 or more")

"""How a model is evaluated."""

from dataclasses import dataclass, field
from pathlib import Path

from jax_lm.documents.reading import ReadingOptions
from jax_lm.errors import check_values
from jax_lm.evaluation.scoring.methods import Method
from jax_lm.sharding.mesh import MeshConfig


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(ReadingOptions):
    """How documents or rows are scored."""

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
    resamples: int = 2000
    """Draws of the documents for confidence intervals; 0: no intervals."""
    resampling_seed: int = 0
    """Decides those draws."""
    document_indices: Path | None = None
    """Numbers of the documents to score, counted within their subset."""
    group: int = 0
    """Which group of them, where the numbers lie in a directory."""
    mesh: MeshConfig = field(default_factory=MeshConfig)
    """How devices share the work."""

    def __post_init__(self) -> None:
        """Refuse batches of nothing."""
        super().__post_init__()
        check_values(
            {
                "--batch-size": (self.batch_size, self.batch_size > 0, "1 or more"),
                "--resamples": (
                    self.resamples,
                    self.resamples == 0 or self.resamples >= 100,
                    "100 or more, or 0 for no intervals",
                ),
                "--group": (self.group, self.group >= 0, "0 or more"),
            }
        )

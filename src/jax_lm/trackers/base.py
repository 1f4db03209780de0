"""Where a run's numbers go: the one Protocol every tracker satisfies."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Float, Int


class Histogram(NamedTuple):
    """How many values lie between each two edges."""

    counts: Int[np.ndarray, "bins"]
    edges: Float[np.ndarray, "bins+1"]
    """Ascending; the first bin begins at the first of them."""


class Tracker(Protocol):
    """Receives metrics, samples and histograms as they come; must be closed once."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Record metrics (named as ``train/loss``) of a step."""
        ...

    def sample(self, step: int, prompt: str, text: str) -> None:
        """Record a text generated after a step."""
        ...

    def histogram(self, step: int, values: Mapping[str, Histogram]) -> None:
        """Record distributions (named as ``gradients/token_embedding``) of a step."""
        ...

    def close(self) -> None:
        """Flush and release what is held; calling it again does nothing."""
        ...

"""Where a run's numbers go: the one Protocol every tracker satisfies."""

from collections.abc import Mapping
from typing import Protocol


class Tracker(Protocol):
    """Receives metrics and samples as they come; must be closed once."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Record metrics (named as ``train/loss``) of a step."""
        ...

    def sample(self, step: int, prompt: str, text: str) -> None:
        """Record a text generated after a step."""
        ...

    def close(self) -> None:
        """Flush and release what is held; calling it again does nothing."""
        ...

"""Low-rank adaptation of any parameter (Hu et al. 2021, arXiv:2106.09685)."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class LoraConfig:
    """Train small factors beside frozen weights; rank 0 trains the weights themselves."""

    rank: int = 0
    """Of the factors; 0: no adaptation."""
    alpha: float = 16.0
    """The factors' product is multiplied by alpha / rank."""
    targets: tuple[str, ...] = ("*attention*weight",)
    """Parameters that get factors, by patterns of their path, as in *.attention.query_weight."""

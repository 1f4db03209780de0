"""Random initialisation of weights."""

import math
from collections.abc import Sequence
from typing import Literal

import jax
from jaxtyping import Array, Float, Key

Initialization = Literal["published", "normal"]
"""``published``: as the family's first models began; ``normal``: ``init_std`` for every matrix, as
transformers does."""


def normal(
    key: Key[Array, ""], shape: Sequence[int], standard_deviation: float
) -> Float[Array, "..."]:
    """Independent normal values with mean zero, float32."""
    return standard_deviation * jax.random.normal(key, tuple(shape))


def residual_std(num_layers: int, embed_dim: int) -> float:
    """Of projections back into the residual stream: ``2 / (layers * sqrt(embed))``.

    Wang 2021 (mesh-transformer-jax): GPT-J's, and after it GPT-NeoX's and Pythia's.
    """
    return 2.0 / (num_layers * math.sqrt(embed_dim))

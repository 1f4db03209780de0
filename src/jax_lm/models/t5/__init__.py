"""T5, an encoder-decoder with relative positions: its configuration, its two stacks, the model."""

from jax_lm.models.t5.config import PRESETS, T5Config
from jax_lm.models.t5.model import T5

__all__ = ["PRESETS", "T5", "T5Config"]

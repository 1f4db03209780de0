"""BART, an encoder-decoder: its configuration, its two stacks, the model."""

from jax_lm.models.bart.config import PRESETS, BartConfig
from jax_lm.models.bart.model import Bart

__all__ = ["PRESETS", "Bart", "BartConfig"]

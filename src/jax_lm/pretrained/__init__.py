"""Models that exist already: found by what a person calls them, opened, converted."""

from jax_lm.pretrained.finding import FoundModel, OpenedModel, find_model, open_decoder, open_model

__all__ = ["FoundModel", "OpenedModel", "find_model", "open_decoder", "open_model"]

"""Hugging Face weights: one declarative table a family, read in both directions."""

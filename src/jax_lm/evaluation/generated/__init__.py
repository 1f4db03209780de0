"""Texts that a model writes, held against the ones expected."""

"""Ids -> training examples (NumPy only, drawn at load time)."""

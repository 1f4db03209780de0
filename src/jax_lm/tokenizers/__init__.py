"""Text <-> ids (no JAX)."""

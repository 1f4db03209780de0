"""Where text lives: sources of documents (no JAX)."""

"""Where a run's numbers go (no JAX)."""

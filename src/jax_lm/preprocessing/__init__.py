"""Documents -> feature rows on disk (no JAX)."""

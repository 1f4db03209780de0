"""A run directory on an object store: written here, and copied there while training goes on."""

from jax_lm.training.remote.copying import kept_copy

__all__ = ["kept_copy"]

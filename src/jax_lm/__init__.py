"""jax-lm: train language models in JAX, from raw text to a Hugging Face checkpoint."""

__version__ = "0.1.0"

"""A model by its name on the Hugging Face hub: what is needed of it, from the cache or fetched."""

from pathlib import Path

from jax_lm.huggingface.opening import (
    INDEX_FILE,
    PICKLED_FILE,
    PICKLED_INDEX_FILE,
    SINGLE_FILE,
)
from jax_lm.tokenizers.hub import FILES as TOKENIZER_FILES
from jax_lm.tokenizers.hub import hub_directory

MODEL_FILES = (
    "config.json",
    "generation_config.json",
    SINGLE_FILE,
    INDEX_FILE,
    "model-*-of-*.safetensors",
    *TOKENIZER_FILES,
)
PICKLED_FILES = (PICKLED_FILE, PICKLED_INDEX_FILE, "pytorch_model-*-of-*.bin")
"""Fetched only where there are no safetensors."""


def model_directory(name: str) -> Path:
    """A directory with the configuration, weights and tokenizer of ``NAME`` or ``NAME@REVISION``.

    Raises:
        JaxLMError: there is no such name, or it cannot be reached.
    """
    directory = hub_directory(name, MODEL_FILES, what="model")
    if (directory / SINGLE_FILE).is_file() or (directory / INDEX_FILE).is_file():
        return directory
    return hub_directory(name, (*MODEL_FILES, *PICKLED_FILES), what="model")

"""The families by name; a new family is a new row."""

from typing import NamedTuple

from jax_lm.models.gpt2 import GPT2, GPT2Config


class Family(NamedTuple):
    """A family's configuration and model classes."""

    config: type[GPT2Config]
    model: type[GPT2]


FAMILIES = {"gpt2": Family(GPT2Config, GPT2)}

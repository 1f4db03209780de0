"""What a family's file in this folder exports: one ``HubFamily`` a ``model_type``."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from jax_lm.huggingface.config_table import ConfigTable
from jax_lm.huggingface.mapping import Table
from jax_lm.models.registry import FAMILIES


@dataclass(frozen=True, kw_only=True)
class HubFamily:
    """A kind of model of transformers, as data."""

    model_type: str
    """As config.json names it."""
    family: str
    """Ours, a key of ``models.registry.FAMILIES``; several model types may share one."""
    architecture: str
    """The class of transformers that loads what we write."""
    also_read: tuple[str, ...] = ()
    """Other classes whose files hold every weight we need."""
    config: ConfigTable
    """config.json in both directions."""
    table: Callable[[Any], Table]
    """The weights of a model of ours, given its configuration."""
    writes: Callable[[Any], bool] = lambda config: True
    """Whether a configuration of ours is one of this type; the first type that takes it is
    written."""
    stored_as: Callable[[Any], Any] = lambda config: config
    """The configuration whose parameters the files hold. Those that the model itself lacks are
    written as zeros and must be zero when read (biases that transformers always has)."""

    with_weights: Callable[[Any, Collection[str]], Any] = lambda config, names: config
    """The configuration of a directory whose files hold tensors of these names, where config.json
    alone does not say all."""

    @property
    def readable(self) -> tuple[str, ...]:
        """Every class whose files can be read."""
        return (self.architecture, *self.also_read)

    @property
    def config_class(self) -> Any:
        """Its configuration."""
        return FAMILIES[self.family].config

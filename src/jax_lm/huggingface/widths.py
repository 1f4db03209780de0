"""Counts in config.json that may follow from others."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jax_lm.errors import UsageError
from jax_lm.huggingface.config_table import Group


class Width(NamedTuple):
    """A count of theirs that ours may leave to a rule (None)."""

    theirs: str
    ours: str
    default: int | None
    """What transformers takes where the key is absent; None: what the rule says."""
    rule: Callable[[Mapping[str, Any]], float]
    """From config.json."""
    resolved: Callable[[Any], int]
    """From our configuration: always written, never null."""

    def read(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Our field; None where the value is that of the rule, so that it follows other changes.

        Raises:
            UsageError: it is no count.
        """
        value = values.get(self.theirs, self.default)
        if value is not None and not (type(value) is int and value > 0):
            raise UsageError(f"{self.theirs} must be a positive integer, not {value!r}")
        return {self.ours: None if value == self.rule(values) else value}

    def group(self) -> Group:
        """For a ``ConfigTable``."""
        return Group((self.theirs,), self.read, lambda c: {self.theirs: self.resolved(c)})

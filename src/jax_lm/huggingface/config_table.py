"""A family's config.json as data: which key is which field of ours, in both directions."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from jax_lm.errors import JaxLMError, UsageError
from jax_lm.huggingface.ignored_keys import HARMLESS, IGNORED_KEYS

Config = TypeVar("Config")
Kind = Literal["count", "id", "number", "flag", "text", "any"]

KINDS: Mapping[Kind, tuple[str, Callable[[Any], bool]]] = {
    "count": ("a positive integer", lambda value: _is_integer(value) and value > 0),
    "id": ("a token id", lambda value: _is_integer(value) and value >= 0),
    "number": ("a number", lambda value: _is_integer(value) or isinstance(value, float)),
    "flag": ("true or false", lambda value: isinstance(value, bool)),
    "text": ("a string", lambda value: isinstance(value, str)),
    "any": ("", lambda value: True),
}


@dataclass(frozen=True)
class Field:
    """One field of ours, and the key (or keys that must agree) it has in config.json."""

    theirs: str | tuple[str, ...]
    ours: str
    default: Any
    """What transformers takes where the key is absent."""
    kind: Kind = "number"
    null: bool = False
    """Whether null is a value, which ``read`` gets as None."""
    choices: Mapping[str, Any] | None = None
    """Their words for ours; the first word for a value is the one written."""
    read: Callable[[Any], Any] | None = None
    """From their value to ours, where they differ."""
    write: Callable[[Any], Any] | None = None
    """From our value to theirs."""
    quiet: bool = False
    """Whether the key is left out of the files we write where it has its default."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of config.json."""
        return (self.theirs,) if isinstance(self.theirs, str) else self.theirs


@dataclass(frozen=True)
class Group:
    """Keys that only together say what fields of ours are; raises UsageError where they cannot."""

    keys: tuple[str, ...]
    read: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    """From the whole of config.json to fields of ours."""
    write: Callable[[Any], Mapping[str, Any]]
    """From our configuration to their keys."""


@dataclass(frozen=True, kw_only=True)
class ConfigTable:
    """All of a family's config.json; a key that is nowhere here is an error."""

    fields: tuple[Field, ...]
    groups: tuple[Group, ...] = ()
    required: Mapping[str, Any] = field(default_factory=dict)
    """Keys with the only value that is implemented, which is also what their absence means."""
    ignored: frozenset[str] = frozenset()
    """Keys of this family without influence on the numbers, beside ``IGNORED_KEYS``."""
    harmless: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Keys that may be there with one of these values and are not written, beside ``HARMLESS``."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """Fields of ours that have one value for this ``model_type``; the others are not written."""

    @property
    def known(self) -> frozenset[str]:
        """Every key that may be there."""
        fields = {key for one in self.fields for key in one.keys}
        groups = {key for group in self.groups for key in group.keys}
        valued = {*self.required, *self.harmless, *HARMLESS}
        return frozenset(fields | groups | valued | self.ignored | IGNORED_KEYS)


def read_config(
    table: ConfigTable, values: Mapping[str, Any], where: str, config_class: type[Config]
) -> Config:
    """Our configuration from a config.json of transformers.

    Args:
        table: the family's.
        values: what the file holds.
        where: the file, for messages.
        config_class: the family's configuration.

    Raises:
        JaxLMError: keys have impossible values or ask for what is not implemented; all are named.
    """
    problems = [*_ill_typed(table, values), *_not_implemented(table, values)]
    if problems:
        raise JaxLMError(f"{where}: {'; '.join(problems)}")
    try:
        ours = {one.ours: _ours(one, values) for one in table.fields}
        for group in table.groups:
            ours.update(group.read(values))
        return config_class(**ours, **table.constants)
    except UsageError as error:
        raise JaxLMError(f"{where}: {error}") from error


def write_config(table: ConfigTable, config: Any) -> dict[str, Any]:
    """The config.json of a model, without ``model_type``, ``architectures`` and token ids."""
    values = dict(table.required)
    for one in table.fields:
        value = _theirs(one, getattr(config, one.ours))
        if not (one.quiet and value == one.default):
            values.update(dict.fromkeys(one.keys, value))
    for group in table.groups:
        values.update(group.write(config))
    return values


def _ours(one: Field, values: Mapping[str, Any]) -> Any:
    value = values.get(one.keys[0], one.default)
    if one.choices is not None and isinstance(value, str):
        return one.choices[value]
    value = float(value) if one.kind == "number" and value is not None else value
    return value if one.read is None else one.read(value)


def _theirs(one: Field, value: Any) -> Any:
    if one.choices is not None:
        return next(theirs for theirs, ours in one.choices.items() if ours == value)
    return value if one.write is None else one.write(value)


def _ill_typed(table: ConfigTable, values: Mapping[str, Any]) -> Iterator[str]:
    for one in table.fields:
        found = {key: values.get(key, one.default) for key in one.keys}
        wrong = [_expected(one, key, value) for key, value in found.items()]
        if any(wrong):
            yield from filter(None, wrong)
        elif len(set(map(_json, found.values()))) > 1:
            listed = ", ".join(f"{key} {value}" for key, value in found.items())
            yield f"{listed}; they must be equal"


def _expected(one: Field, key: str, value: Any) -> str:
    if value is None and one.null:
        return ""
    described, fits = KINDS[one.kind]
    if not fits(value):
        return f"{key} must be {described}, not {value!r}"
    if one.choices is not None and (not isinstance(value, str) or value not in one.choices):
        return f"{key} is {value!r}; implemented: {', '.join(one.choices)}"
    return ""


def _not_implemented(table: ConfigTable, values: Mapping[str, Any]) -> Iterator[str]:
    required = {key: (only,) for key, only in table.required.items()}
    for key, allowed in {**required, **table.harmless, **HARMLESS}.items():
        if key in values and values[key] not in allowed:
            yield f"{key} is {_json(values[key])}; only {_json(allowed[0])} is implemented"
    unknown = sorted(values.keys() - table.known)
    if unknown:
        yield f"not implemented: {', '.join(f'{key} ({_json(values[key])})' for key in unknown)}"


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)

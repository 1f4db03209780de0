"""Configuration dataclasses <-> plain JSON values, checked key by key."""

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from jax_lm.errors import UsageError, nearest

Config = TypeVar("Config")


def to_json(config: Any) -> dict[str, Any]:
    """A dataclass as nested dicts of JSON values."""
    return dataclasses.asdict(config)


def from_json(kind: type[Config], values: Mapping[str, Any], where: str) -> Config:
    """The dataclass ``kind`` from nested dicts; absent keys take their defaults.

    Args:
        kind: a dataclass type.
        values: what a JSON or YAML file holds.
        where: the file, for messages.

    Raises:
        UsageError: an unknown key (the nearest known one is named) or a value of another type.
    """
    config: Config = _dataclass(kind, values, where, "")
    return config


def _dataclass(kind: type[Any], values: Any, where: str, path: str) -> Any:
    if not isinstance(values, Mapping):
        raise UsageError(f"{where}: {path or 'the file'} must be a mapping of keys to values")
    hints = get_type_hints(kind)
    for key in values:
        if key not in hints:
            raise UsageError(f"{where}: unknown key {_join(path, key)!r}{nearest(str(key), hints)}")
    kinds = {**hints, **_named_unions(kind, values, where, path)}
    built = {
        key: _value(kinds[key], value, where, _join(path, key)) for key, value in values.items()
    }
    try:
        return kind(**built)
    except UsageError as error:
        raise UsageError(f"{where}: {path or kind.__name__}: {error}") from error


def _value(kind: Any, value: Any, where: str, path: str) -> Any:
    if dataclasses.is_dataclass(kind):
        assert isinstance(kind, type)
        return _dataclass(kind, value, where, path)
    if isinstance(value, list | tuple):
        kind = next(filter(_is_tuple, get_args(kind)), kind)  # of `str | tuple[str, ...]`
    if _is_tuple(kind) and isinstance(value, list | tuple):
        item = get_args(kind)[0]
        return tuple(_value(item, one, where, f"{path}[{i}]") for i, one in enumerate(value))
    if any(dataclasses.is_dataclass(option) for option in get_args(kind)):
        raise UsageError(f"{where}: {path} must be a mapping of keys to values, not {value!r}")
    if not _fits(kind, value):
        raise UsageError(f"{where}: {path} must be {_describe(kind)}, not {value!r}")
    return float(value) if kind is float else value


def _named_unions(
    kind: type[Any], values: Mapping[str, Any], where: str, path: str
) -> dict[str, type[Any]]:
    """For each value whose field is a union of dataclasses, the one that it names, or its default.

    Each of such dataclasses has a field with one fixed word, which names it.
    """
    chosen: dict[str, type[Any]] = {}
    hints = get_type_hints(kind)
    for field in dataclasses.fields(kind):
        options: list[Any] = [
            one for one in get_args(hints[field.name]) if dataclasses.is_dataclass(one)
        ]
        value = values.get(field.name)
        if not options or not isinstance(value, Mapping):
            continue
        key = _fixed(options[0])[0]
        words = {_fixed(option)[1]: option for option in options}
        named = value.get(key, getattr(_default(field), key))
        if named not in words:
            raise UsageError(
                f"{where}: {_join(_join(path, field.name), key)} must be one of "
                f"{', '.join(words)}, not {named!r}"
            )
        chosen[field.name] = words[named]
    return chosen


def _fixed(option: Any) -> tuple[str, str]:
    """The field that has one fixed word, and the word."""
    for name, hint in get_type_hints(option).items():
        if get_origin(hint) is Literal and len(get_args(hint)) == 1:
            return name, get_args(hint)[0]
    raise TypeError(f"{option.__name__} has no field with one fixed word")


def _default(field: "dataclasses.Field[Any]") -> Any:
    factory = field.default_factory
    return field.default if factory is dataclasses.MISSING else factory()


def _fits(kind: Any, value: Any) -> bool:
    if get_origin(kind) in (Union, types.UnionType):
        return any(_fits(option, value) for option in get_args(kind))
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind in (int, float):
        return isinstance(value, int if kind is int else int | float) and not isinstance(
            value, bool
        )
    return not _is_tuple(kind) and isinstance(value, kind)


def _is_tuple(kind: Any) -> bool:
    return get_origin(kind) is tuple


def _describe(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(repr(option) for option in get_args(kind))
    options = get_args(kind)
    if options:
        return " or ".join(_describe(option) for option in options)
    return "null" if kind is type(None) else getattr(kind, "__name__", str(kind))


def _join(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)

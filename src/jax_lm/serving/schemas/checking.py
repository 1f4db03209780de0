"""Checks values against the part of JSON Schema that the declarations here use.

https://json-schema.org/draft/2020-12. Small on purpose: what documents a request is what checks it,
and a refusal is a sentence that names the place.
"""

from collections.abc import Mapping
from typing import Any

from jax_lm.errors import nearest
from jax_lm.serving.refusals import Refused

Schema = Mapping[str, Any]
TYPES = {
    "string": str,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
    "number": (int, float),
    "integer": int,
}
CALLED = {
    "string": "text",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
    "number": "a number",
    "integer": "an integer",
}


def checked(value: Any, schema: Schema, where: str = "the body") -> Any:
    """The value, with whole numbers as integers where integers are meant.

    Args:
        value: as read from JSON.
        schema: what it should be.
        where: its name, for a message to a person.

    Raises:
        Refused: 400, naming the place and what was expected there.
    """
    if "anyOf" in schema:
        return _any_of(value, schema, where)
    kind = _kind(value, schema, where)
    if kind == "integer":
        value = int(value)
    _check_value(value, schema, where)
    if kind in ("integer", "number"):
        _check_range(value, schema, where)
    elif kind == "string":
        _check_text(value, schema, where)
    elif kind == "array":
        _check_size(value, schema, where, "Items", "items")
        return [checked(v, schema.get("items", {}), _item(where, i)) for i, v in enumerate(value)]
    elif kind == "object":
        return _object(value, schema, where)
    return value


def _item(where: str, index: int) -> str:
    return f"{where}[{index}]"


def _any_of(value: Any, schema: Schema, where: str) -> Any:
    for choice in schema["anyOf"]:
        try:
            return checked(value, choice, where)
        except Refused:
            continue
    raise _refused(where, f"should be {schema['title']}")


def _kind(value: Any, schema: Schema, where: str) -> str | None:
    """Which of the schema's types the value has; None where it names none."""
    given = schema.get("type")
    if given is None:
        return None
    kinds = [given] if isinstance(given, str) else list(given)
    for kind in kinds:
        if _is(value, kind):
            return str(kind)
    expected = " or ".join(CALLED[kind] for kind in kinds)
    raise _refused(where, f"should be {expected}, not {_shown(value)}")


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, TYPES[kind])  # type: ignore[arg-type]


def _shown(value: Any) -> str:
    for kind in ("null", "boolean", "object", "array"):
        if _is(value, kind):
            return {"null": "null", "boolean": str(value).lower()}.get(kind, CALLED[kind])
    text = str(value)
    return repr(text[:40]) if isinstance(value, str) else text[:40]


def _check_value(value: Any, schema: Schema, where: str) -> None:
    choices = schema.get("enum")
    if choices is not None and not any(
        value == choice and isinstance(value, bool) == isinstance(choice, bool)
        for choice in choices
    ):
        shown = ", ".join("null" if one is None else str(one) for one in choices)
        raise _refused(where, f"should be {shown}, not {_shown(value)}")


def _check_range(value: float, schema: Schema, where: str) -> None:
    low, above, high = (schema.get(name) for name in ("minimum", "exclusiveMinimum", "maximum"))
    if low is not None and value < low:
        raise _refused(where, f"should be at least {low}, not {_shown(value)}")
    if above is not None and value <= above:
        raise _refused(where, f"should be above {above}, not {_shown(value)}")
    if high is not None and value > high:
        raise _refused(where, f"should be at most {high}, not {_shown(value)}")


def _check_text(value: str, schema: Schema, where: str) -> None:
    _check_size(value, schema, where, "Length", "characters")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _refused(where, "holds half a surrogate pair, which is no text") from error


def _check_size(value: Any, schema: Schema, where: str, suffix: str, unit: str) -> None:
    low, high = schema.get(f"min{suffix}", 0), schema.get(f"max{suffix}")
    if len(value) < low:
        raise _refused(where, f"should have at least {low} {unit}")
    if high is not None and len(value) > high:
        raise _refused(where, f"should have at most {high} {unit}, not {len(value)}")


def _object(value: dict[str, Any], schema: Schema, where: str) -> dict[str, Any]:
    known: Mapping[str, Schema] = schema.get("properties", {})
    prefix = "" if where == "the body" else f"{where}."
    for name in schema.get("required", ()):
        if name not in value:
            raise _refused(f"{prefix}{name}", "is missing")
    _check_size(value, schema, where, "Properties", "entries")
    if schema.get("additionalProperties") is False:
        for name in value:
            if name not in known:
                close = nearest(name, known)
                raise _refused(f"{prefix}{name[:60]}", f"is not known here{close}")
    return {
        name: checked(one, known.get(name, {}), f"{prefix}{name}") for name, one in value.items()
    }


def _refused(where: str, said: str) -> Refused:
    return Refused(400, f"{where} {said}", code="invalid_value", param=where)

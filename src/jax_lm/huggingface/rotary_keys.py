"""Rotary settings of config.json in either form: ``rope_parameters``, or the older two keys."""

from collections.abc import Mapping
from typing import Any

from jax_lm.errors import UsageError

ROTARY_KEYS = ("rope_parameters", "rope_theta", "rope_scaling")
"""For a ``Group``, beside the family's own."""


def rotary_parameters(
    values: Mapping[str, Any], *, theta: float = 10_000.0, known: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Rotary settings as ``rope_parameters`` holds them, whichever form the file has.

    Args:
        values: of config.json.
        theta: the base where the file is silent.
        known: settings the family understands, beside ``rope_type`` and ``rope_theta``.

    Returns:
        ``rope_type`` (``default`` where there is no scaling), ``rope_theta`` and what else the file
        says.

    Raises:
        UsageError: a setting that is not known; all of them are named.
    """
    found = {
        "rope_type": "default",
        "rope_theta": values.get("rope_theta", theta),
        **_mapping(values, "rope_scaling"),
        **_mapping(values, "rope_parameters"),
    }
    unknown = sorted(found.keys() - {"rope_type", "rope_theta", *known})
    if unknown:
        named = ", ".join(f"{key} {found[key]!r}" for key in unknown)
        raise UsageError(f"rotary settings that are not implemented: {named}")
    base = found["rope_theta"]
    if not isinstance(base, int | float) or isinstance(base, bool):
        raise UsageError(f"rope_theta must be a number, not {base!r}")
    return {**found, "rope_theta": float(base)}


def _mapping(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = values.get(key) or {}
    if not isinstance(found, Mapping):
        raise UsageError(f"{key} must be a mapping, not {found!r}")
    found = dict(found)
    if "type" in found:  # the name of before version 4.45, which later ones keep beside the other
        found.setdefault("rope_type", found.pop("type"))
    return found

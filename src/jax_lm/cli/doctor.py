"""``jax-lm doctor``: what is installed, what it will run on, and what is missing."""

from collections.abc import Mapping
from dataclasses import dataclass

from jax_lm.cli.arguments import parse
from jax_lm.errors import JaxLMError
from jax_lm.remote.caching import cache_directory
from jax_lm.trackers import environment

DESCRIPTION = """Show versions, devices, the kernels that will run and the optional parts present.

Example: jax-lm doctor"""


@dataclass(frozen=True)
class DoctorArguments:
    """``jax-lm doctor`` has no flags of its own."""


def main(args: list[str]) -> None:
    """Print the state of the installation; every optional part may be missing."""
    if args:  # a doctor leans on as little as it can: tyro looks for torch
        parse(DoctorArguments, args, "jax-lm doctor", DESCRIPTION)
    import jax  # noqa: F401 - so that the environment lists its devices

    from jax_lm import losses
    from jax_lm.models.layers.attention_kernel import usual_kernel

    try:
        found = environment.describe()
    except RuntimeError as error:
        raise JaxLMError(f"JAX finds no device to run on ({error}); check the driver") from None
    packages, devices = found.pop("packages"), found.pop("devices")
    memory = found.pop("memory_gib")
    where = cache_directory()
    free = environment.free_gib(where)
    _table("This machine", {**found, "memory": f"{memory or '?'} GiB"})
    _table("Packages", {name: version or "missing" for name, version in packages.items()})
    _table("Devices", {str(number): device for number, device in enumerate(devices)})
    _table("Kernels", {"attention": usual_kernel(), "loss": losses.KERNEL})
    _table("Cache", {"directory": str(where), "free": f"{free:,.1f} GiB"})
    _table("Optional parts", {part.package: _state(part) for part in environment.optional_parts()})


def _state(part: environment.OptionalPart) -> str:
    if part.version is not None:
        return f"{part.version:<12}  {part.purpose}"
    return f"{'missing':<12}  {part.purpose}: {part.install}"


def _table(title: str, rows: Mapping[str, object]) -> None:
    print(f"{title}:")
    for name, value in rows.items():
        print(f"  {name.replace('_', '-'):<18} {value}")
    print()

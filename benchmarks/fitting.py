"""The tables of what fits, from results/what_fits.json."""

from collections.abc import Iterator
from typing import Any


def what_fits(result: dict[str, Any]) -> Iterator[str]:
    """The largest preset for each size of device, and how good the estimate is."""
    settings, parameters = result["bytes"], result["parameters"]
    yield "## What fits"
    yield ""
    yield (
        f"{result['rows']} rows of {result['length']:,} tokens a step on each device, bfloat16, "
        "AdamW, no dropout; in brackets the parameters and the estimate in GB of 10^9 bytes."
    )
    yield ""
    yield f"| device | {' | '.join(settings)} |"
    yield f"|---|{'---|' * len(settings)}"
    for gigabytes in (8, 16, 24, 80):
        limit = FITS * gigabytes * 2**30
        cells = [largest(sizes, parameters, limit) for sizes in settings.values()]
        yield f"| {gigabytes} GB | {' | '.join(cells)} |"
    yield ""
    yield "| step, compiled for a CPU | estimate (GB) | XLA (GB) | off |"
    yield "|---|---|---|---|"
    for name, sizes in result["compiled"].items():
        estimated, exact = sizes["estimated"], sizes["compiled"]
        off = estimated / exact - 1
        yield f"| {name} | {estimated / 1e9:.2f} | {exact / 1e9:.2f} | {off:+.1%} |"
    yield ""


FITS = 0.85
"""Part of a device's memory that a step may take."""


def largest(sizes: dict[str, int], parameters: dict[str, int], limit: float) -> str:
    """The preset with most parameters whose step takes at most ``limit`` bytes."""
    fitting = [name for name, size in sizes.items() if size <= limit]
    if not fitting:
        return "none"
    name = max(fitting, key=lambda name: parameters[name])
    millions = parameters[name] / 1e6
    count = f"{millions / 1e3:.2f} B" if millions >= 1e3 else f"{millions:.0f} M"
    return f"{name} ({count}; {sizes[name] / 1e9:.1f})"

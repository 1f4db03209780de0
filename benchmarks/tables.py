"""Writes benchmarks/RESULTS.md from benchmarks/results/*.json: no number there is typed by hand."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
OUTPUT = FOLDER / "RESULTS.md"


def main() -> None:
    """Write the page."""
    OUTPUT.write_text(page())


def page() -> str:
    """The whole page."""
    lines = [
        "# Results",
        "",
        "Generated from `results/*.json` by `python benchmarks/tables.py`.",
        "",
    ]
    for path in sorted((FOLDER / "results").glob("*.json")):
        lines.extend(TABLES[path.stem](json.loads(path.read_text())))
    return "\n".join(lines).rstrip() + "\n"


def shakespeare_char(result: dict[str, Any]) -> Iterator[str]:
    """Held-out loss of nanoGPT's character-level run, by seed."""
    yield "## Character-level Shakespeare (nanoGPT's CPU configuration)"
    yield ""
    yield (
        "Recipe `shakespeare-char`: 0.80 M parameters, 2,000 steps of 12 x 64 characters, float32. "
        "Loss over all held-out characters in disjoint blocks of 64, at the last step; "
        f"{result['reference']} on noisy samples. Bar: {result['bar']}."
    )
    yield ""
    yield "| seed | loss (nats a character) | accuracy | bits per byte | characters | seconds |"
    yield "|---|---|---|---|---|---|"
    for run in result["runs"]:
        yield (
            f"| {run['seed']} | {run['loss']:.4f} | {run['accuracy']:.4f} | "
            f"{run['bits_per_byte']:.4f} | {run['characters']:,} | {run['seconds']:.0f} |"
        )
    yield ""
    yield machine(result["machine"])
    yield ""


def machine(values: dict[str, Any]) -> str:
    """What the numbers were measured on."""
    versions = ", ".join(f"{name} {values['packages'][name]}" for name in ("jax", "numpy"))
    return (
        f"Measured on {values['processor']}, {values['cores']} cores, Python {values['python']}, "
        f"{versions}, jax-lm {values['jax_lm']}."
    )


TABLES: dict[str, Callable[[dict[str, Any]], Iterator[str]]] = {
    "shakespeare_char": shakespeare_char,
}

if __name__ == "__main__":
    main()

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


def stores(result: dict[str, Any]) -> Iterator[str]:
    """Memory, rates and sizes of stores with random access."""
    sqlite, mongodb = result["sqlite"], result["mongodb"]
    raw, stored, packed = result["raw_bytes"], sqlite["stored_bytes"], result["gzip_bytes"]
    faster = mongodb["one_query_each_seconds"] / mongodb["range_seconds"]
    yield "## Stores of documents"
    yield ""
    yield (
        f"{result['documents']:,} documents of {raw / result['documents']:.0f} bytes on average in "
        f"SQLite with zstd, {mongodb['iterated']:,} of them in MongoDB (its protocol, spoken by "
        "secantusdb in memory). Memory: the reader's peak above that with the store open. Bars: "
        "200 MB, 0.1 ms, 20,000 documents a second, 10 times."
    )
    yield ""
    yield "| | SQLite + zstd | MongoDB |"
    yield "|---|---|---|"
    for label, key, style in STORE_ROWS:
        values = [store.get(key) for store in (sqlite, mongodb)]
        shown = ["" if value is None else format(value, style) for value in values]
        yield f"| {label} | {' | '.join(shown)} |"
    yield ""
    yield (
        f"Size: text {raw / 1e6:,.0f} MB; store, with random access, {stored / 1e6:,.0f} MB "
        f"({raw / stored:.2f}x smaller); gzip of the whole, without, {packed / 1e6:,.0f} MB "
        f"({raw / packed:.2f}x). A range of {mongodb['range']:,} documents from MongoDB in one "
        f"query: {faster:.0f} times as fast as one query a document."
    )
    yield ""
    yield machine(result["machine"])
    yield ""


STORE_ROWS = (
    ("building (s)", "build_seconds", ",.0f"),
    ("memory while building (MB)", "build_peak_megabytes", ",.0f"),
    ("documents while iterating", "iterated", ","),
    ("iterating (documents/s)", "iterate_rate", ",.0f"),
    ("memory while iterating (MB above idle)", "megabytes_above_idle", ".0f"),
    ("random read, median (ms)", "median_read_ms", ".3f"),
    ("random read, 99th percentile (ms)", "read_99th_ms", ".3f"),
    ("random batches of 1,000 (documents/s)", "batch_rate", ",.0f"),
    ("1,000 in a range, one query (s)", "range_seconds", ".3f"),
    ("1,000 in a range, one query each (s)", "one_query_each_seconds", ".3f"),
)


def machine(values: dict[str, Any]) -> str:
    """What the numbers were measured on."""
    versions = ", ".join(f"{name} {values['packages'][name]}" for name in ("jax", "numpy"))
    return (
        f"Measured on {values['processor']}, {values['cores']} cores, Python {values['python']}, "
        f"{versions}, jax-lm {values['jax_lm']}."
    )


TABLES: dict[str, Callable[[dict[str, Any]], Iterator[str]]] = {
    "shakespeare_char": shakespeare_char,
    "stores": stores,
}

if __name__ == "__main__":
    main()

"""Writes benchmarks/RESULTS.md from benchmarks/results/*.json: no number there is typed by hand.

The same tables stand in docs/reference/what-fits.md.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))  # also where this file is run by its path

from fitting import what_fits
from generation_tables import generate
from recording import machine
from serving_tables import serve
from training_tables import remat, step_time, step_time_gpu, train_loop

FOLDER = Path(__file__).parent
OUTPUT = FOLDER / "RESULTS.md"
WHAT_FITS = FOLDER.parent / "docs" / "reference" / "what-fits.md"
MARK = "<!-- from results/what_fits.json -->\n"
"""Before and after what is generated in that page."""


def main() -> None:
    """Write the pages."""
    OUTPUT.write_text(page())
    WHAT_FITS.write_text(what_fits_page())


def what_fits_page() -> str:
    """The page of what fits, with its tables as they should be."""
    before, _, after = WHAT_FITS.read_text().split(MARK)
    result = json.loads((FOLDER / "results" / "what_fits.json").read_text())
    return MARK.join((before, "\n".join(TABLES["what_fits"](result)), after))


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


def preprocess(result: dict[str, Any]) -> Iterator[str]:
    """Text to trainable files, in one run with what others do with the same text."""
    megabytes, runs = result["megabytes"], result["runs"]
    ours = megabytes / runs["jax_lm"]["seconds"]
    yield "## Preprocessing"
    yield ""
    yield (
        f"{megabytes:,} MB of text in {result['documents']:,} documents (passages of novels, "
        f"encyclopedia and Norwegian text, 5 % of their words changed), GPT-2's vocabulary, rows "
        f"of {result['length']:,}. Every tool in a fresh process. Bars: 8 times run_clm, 0.4 times "
        "gigatoken alone."
    )
    yield ""
    yield "| | MB/s | ours is | peak memory (MB) |"
    yield "|---|---|---|---|"
    for name, label in PREPROCESS_ROWS:
        rate = megabytes / runs[name]["seconds"]
        peak = runs[name]["peak_megabytes"]
        yield f"| {label} | {rate:,.1f} | {ours / rate:.2f}x | {peak:,.0f} |"
    yield ""
    peaks = {size: found["peak_megabytes"] for size, found in result["memory"].items()}
    (small, least), (large, most) = peaks.items()
    yield (
        f"Our peak memory: {least:,.0f} MB at {small} MB of text, {most:,.0f} MB at {large} MB "
        f"({most / least:.2f}x; bars 1.2x and 2,000 MB)."
    )
    yield ""
    yield machine(result["machine"])
    yield ""


PREPROCESS_ROWS = (
    ("jax_lm", "`jax-lm preprocess`, the whole command: raw text to finished Parquet"),
    ("run_clm", "`datasets.map` + `tokenizers` + `group_texts`, 2 processes: raw text to Arrow"),
    ("tokenizers", "`tokenizers` `encode_batch_fast` alone, text in memory"),
    ("gigatoken", "gigatoken `encode_batch` alone, text in memory"),
)


def loading(result: dict[str, Any]) -> Iterator[str]:
    """Shuffled batches, beside torch's DataLoader."""
    ours, torch = result["runs"]["jax_lm"], result["runs"]["torch"]
    yield "## Loading"
    yield ""
    yield (
        f"NumPy batches of {result['batch']} rows of {result['length']:,} tokens from "
        f"{result['rows']:,} rows, globally shuffled. Ours gives inputs, targets and loss mask and "
        "reads 20 GB of sparse file; the DataLoader (2 workers) gives inputs alone and reads one "
        "Arrow file of 100,000 rows, named a hundred times, from the page cache. Bars: 1 million "
        "tokens a second, 50 ms."
    )
    yield ""
    yield "| | `Loader` | torch DataLoader over datasets |"
    yield "|---|---|---|"
    rates = [f"{run['tokens_per_second'] / 1e6:,.1f}" for run in (ours, torch)]
    yield f"| million tokens a second | {rates[0]} | {rates[1]} |"
    seek, longest = (1e3 * ours[f"seek_{name}_seconds"] for name in ("median", "longest"))
    first = 1e3 * torch["first_batch_seconds"]
    yield f"| first batch from any position, median (ms) | {seek:.1f} | |"
    yield f"| ... the longest (ms) | {longest:.1f} | |"
    yield f"| first batch of an epoch (ms) | | {first:.0f} |"
    yield ""
    yield machine(result["machine"])
    yield ""


def convert(result: dict[str, Any]) -> Iterator[str]:
    """Import of a checkpoint, beside safetensors' own loading."""
    readers, size = result["readers"], result["bytes"]
    theirs = readers["safetensors"]["seconds"]
    yield "## Importing a checkpoint"
    yield ""
    yield (
        f"A GPT-2 of {result['layers']} layers, width {result['width']:,}: {size / 1e6:,.0f} MB in "
        "float32 (half of that in bfloat16), in the page cache, into float32 arrays, as the "
        "default is; `load_model(dtype=...)` asks for others. Medians of "
        f"{len(readers['safetensors']['all_seconds'])} fresh processes by turns; memory is the "
        "peak above what the process held before, over the file that is read and over the arrays "
        "that result. Bars: 0.5 times the speed of safetensors; 1.3 times the checkpoint, which a "
        "bfloat16 file cannot meet as its arrays alone are twice as large."
    )
    yield ""
    yield (
        "| | seconds | times safetensors' speed | peak memory (MB) | times the file | "
        "times the float32 arrays |"
    )
    yield "|---|---|---|---|---|---|"
    files = {"jax_lm_bfloat16": result["written"] - size}
    for name, label in CONVERT_ROWS:
        seconds, peak = (readers[name][key] for key in ("seconds", "peak_bytes"))
        yield (
            f"| {label} | {seconds:.2f} | {theirs / seconds:.2f}x | {peak / 1e6:,.0f} | "
            f"{peak / files.get(name, size):.2f}x | {peak / size:.2f}x |"
        )
    yield ""
    yield machine(result["machine"])
    yield ""


CONVERT_ROWS = (
    ("safetensors", "`safetensors.numpy.load_file`"),
    ("jax_lm", "`load_model`, a float32 file"),
    ("jax_lm_bfloat16", "`load_model`, a bfloat16 file"),
    ("jax_lm_sharded", "`load_model`, a float32 file onto 2 devices, each its half"),
)


def norwegian(result: dict[str, Any]) -> Iterator[str]:
    """Four objectives on a little Norwegian text."""
    yield "## Four objectives on Norwegian text"
    yield ""
    yield (
        f"Tiny models (2 layers, 128 wide, vocabulary 2,048, rows of {result['length']} tokens) "
        f"trained for {result['minutes']:g} minutes each on 0.2 MB, evaluated on another file, by "
        "the ordinary verbs. Entropy and most frequent token are those of the very targets that "
        "are scored; the last column is transformers' loss with the exported directory on the same "
        "batches."
    )
    yield ""
    yield (
        "| model | objective | targets | loss | their entropy | accuracy | most frequent | "
        "transformers' loss |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for run in result["runs"]:
        yield (
            f"| {run['model']} | {run['objective']} | {run['targets']:,} | {run['loss']:.4f} | "
            f"{run['unigram_entropy']:.4f} | {run['accuracy']:.4f} | {run['most_frequent']:.4f} | "
            f"{run['transformers_loss']:.4f} |"
        )
    yield ""
    yield machine(result["machine"])
    yield ""


TABLES: dict[str, Callable[[dict[str, Any]], Iterable[str]]] = {
    "convert": convert,
    "generate": generate,
    "generate_gpu": generate,
    "loading": loading,
    "norwegian": norwegian,
    "preprocess": preprocess,
    "remat": remat,
    "serve": serve,
    "shakespeare_char": shakespeare_char,
    "step_time": step_time,
    "step_time_gpu": step_time_gpu,
    "stores": stores,
    "train_loop": train_loop,
    "what_fits": lambda result: (*what_fits(result), machine(result["machine"]), ""),
}

if __name__ == "__main__":
    main()

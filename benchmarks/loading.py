"""Batches from ten million shuffled rows: our loader beside torch's DataLoader over datasets.

    python benchmarks/loading.py

Both give int32 NumPy batches of 32 rows of 1,024 tokens in a globally shuffled order. Ours reads
flat files of zeros that take no room on disk; datasets reads one Arrow file of 100,000 rows
that is named a hundred times.
"""

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from recording import in_fresh_process, record

ROWS, LENGTH, BATCH = 10_000_000, 1024, 32
SEEKS, SECONDS = 20, 10.0
ARROW_ROWS = 100_000


def main() -> None:
    """Run both in fresh processes and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", choices=["jax_lm", "torch"])
    chosen = parser.parse_args().measure
    if chosen is not None:
        with tempfile.TemporaryDirectory() as folder:
            measure = {"jax_lm": measure_ours, "torch": measure_torch}[chosen]
            print(json.dumps(measure(Path(folder))))
        return
    runs = {name: in_fresh_process(__file__, "--measure", name) for name in ("jax_lm", "torch")}
    for name, values in runs.items():
        print(name, values)
    record("loading", {"rows": ROWS, "length": LENGTH, "batch": BATCH, "runs": runs})


def measure_ours(folder: Path) -> dict[str, float]:
    """Tokens a second through ``Loader``, and the time to its first batch from anywhere."""
    from jax_lm.loading.loader import Loader
    from jax_lm.loading.rows import open_rows
    from jax_lm.objectives.causal_lm import causal_lm

    rows = open_rows(_empty_set(folder), say=lambda line: None)
    given = {"batch_size": BATCH, "seed": 0}
    positions = np.random.default_rng(0).integers(0, 5 * ROWS, SEEKS)
    waits = []
    for position in positions.tolist():
        started = time.perf_counter()
        with Loader(rows, causal_lm, position=position, **given) as loader:
            next(iter(loader))
            waits.append(time.perf_counter() - started)
    with Loader(rows, causal_lm, **given) as loader:
        rate = _tokens_a_second(iter(loader), lambda batch: batch.input_ids)
    return {
        "tokens_per_second": rate,
        "seek_median_seconds": float(np.median(waits)),
        "seek_longest_seconds": max(waits),
    }


def measure_torch(folder: Path) -> dict[str, float]:
    """Tokens a second through two DataLoader workers, and the time to the first batch."""
    import datasets
    import pyarrow as pa
    import torch

    values = pa.array(np.zeros(ARROW_ROWS * LENGTH, np.int32))
    column = pa.FixedSizeListArray.from_arrays(values, LENGTH)
    path = folder / "rows.arrow"
    table = pa.table({"input_ids": column})
    with pa.ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table, max_chunksize=1000)
    part = datasets.Dataset.from_file(str(path))
    whole = datasets.concatenate_datasets([part] * (ROWS // ARROW_ROWS)).with_format("numpy")
    started = time.perf_counter()
    batches = iter(
        torch.utils.data.DataLoader(
            whole,
            batch_size=BATCH,
            shuffle=True,
            num_workers=2,
            collate_fn=lambda rows: np.stack([row["input_ids"] for row in rows]),
        )
    )
    next(batches)
    first = time.perf_counter() - started
    return {
        "tokens_per_second": _tokens_a_second(batches, lambda batch: batch),
        "first_batch_seconds": first,
    }


def _tokens_a_second(batches, array) -> float:  # type: ignore[no-untyped-def]
    next(batches)
    tokens, started = 0, time.perf_counter()
    while time.perf_counter() - started < SECONDS:
        tokens += array(next(batches)).size
    return tokens / (time.perf_counter() - started)


def _empty_set(folder: Path) -> str:
    """A feature set whose decoded rows are there already, sparse and all zeros."""
    from jax_lm.loading import decoding, rows
    from jax_lm.preprocessing.manifest import beside, read_manifest
    from jax_lm.preprocessing.options import PreprocessOptions
    from jax_lm.preprocessing.pipeline import preprocess
    from jax_lm.tokenizers.characters import train_characters

    text = "one row of text " * 100
    (folder / "text.txt").write_text(text)
    train_characters([text]).save(folder / "tokenizer")
    prefix = str(folder / "set")
    options = PreprocessOptions(max_sequence_length=LENGTH)
    preprocess(str(folder / "text.txt"), folder / "tokenizer", prefix, options, say=lambda _: None)
    manifest = read_manifest(prefix)
    many = replace(manifest, totals=replace(manifest.totals, rows=ROWS))
    directory = beside(prefix, "rows")
    directory.mkdir()
    shapes = decoding._shapes(prefix, many)
    for name, (dtype, shape) in shapes.items():
        np.lib.format.open_memmap(directory / f"{name}.npy", "w+", dtype, shape)
    index = {"key": rows._key(manifest), "subsets": [""], "arrays": list(shapes)}
    (directory / decoding.INDEX).write_text(json.dumps(index))
    return prefix


if __name__ == "__main__":
    main()

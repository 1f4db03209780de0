"""Raw text to trainable files, beside what others do with the same text.

    python benchmarks/preprocess.py PATH/TO/TEXTS PATH/TO/gpt2/tokenizer.json

A corpus is made of the ``.txt`` files under PATH/TO/TEXTS (see corpora.py) and read as ``.jsonl``:

- jax_lm: ``jax-lm preprocess``, the whole command, from starting Python to verified Parquet;
- run_clm: ``datasets.map`` with ``tokenizers`` and then ``group_texts``, two processes each, as the
  language-modeling examples of transformers do, from reading the file to the Arrow cache;
- tokenizers: ``encode_batch`` alone, over texts in memory;
- gigatoken: ``encode_batch`` alone, over texts in memory.

Each runs in a fresh process on the same text. A second part compares our peak memory at two sizes.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from corpora import write_corpus
from recording import in_fresh_process, peak_megabytes, record, recorded

LENGTH = 1024
MEASURED = ("jax_lm", "run_clm", "tokenizers", "gigatoken")
MEMORY_MEGABYTES = (100, 1000)


def main() -> None:
    """Run every tool, or one of them where this is its process."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("texts", type=Path, help="directory of .txt files, or a corpus to measure")
    parser.add_argument("tokenizer", type=Path, help="a tokenizer.json")
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--part", choices=["all", "compare", "memory"], default="all")
    parser.add_argument("--measure", choices=MEASURED)
    given = parser.parse_args()
    if given.measure is not None:
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            found = TOOLS[given.measure](given.texts, given.tokenizer, Path(folder))
            found.setdefault("seconds", time.perf_counter() - started)
            print("\n" + json.dumps(found | {"peak_megabytes": peak_megabytes()}))
        return
    result = recorded("preprocess") if given.part != "all" else {}
    with tempfile.TemporaryDirectory() as folder:
        if given.part != "memory":
            result |= compare(given.texts, given.tokenizer, given.megabytes, Path(folder))
        if given.part != "compare":
            result["memory"] = dict(memory_by_size(given.texts, given.tokenizer, Path(folder)))
    record("preprocess", result)


def compare(texts: Path, tokenizer: Path, megabytes: int, folder: Path) -> dict[str, Any]:
    """Every tool on one corpus."""
    corpus = folder / "corpus.jsonl"
    documents = write_corpus(texts, corpus, megabytes)
    runs = {}
    for name in MEASURED:
        runs[name] = measured(name, corpus, tokenizer)
        rate = megabytes / runs[name]["seconds"]
        print(f"{name:<12}{rate:8.1f} MB/s  {runs[name]}", flush=True)
    corpus.unlink()
    return {"megabytes": megabytes, "documents": documents, "length": LENGTH, "runs": runs}


def memory_by_size(
    texts: Path, tokenizer: Path, folder: Path
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Our peak memory on corpora of several sizes."""
    for megabytes in MEMORY_MEGABYTES:
        corpus = folder / "corpus.jsonl"
        write_corpus(texts, corpus, megabytes, seed=1)
        found = measured("jax_lm", corpus, tokenizer)
        print(f"{megabytes} MB of text: {found}", flush=True)
        yield str(megabytes), found
        corpus.unlink()


def measured(name: str, corpus: Path, tokenizer: Path) -> dict[str, Any]:
    """One tool in a fresh process; the whole command's time where the tool is a command."""
    found = in_fresh_process(__file__, str(corpus), str(tokenizer), "--measure", name)
    return found | ({"seconds": found["process_seconds"]} if name in ("jax_lm", "run_clm") else {})


def run_ours(corpus: Path, tokenizer: Path, folder: Path) -> dict[str, Any]:
    """The verb, as a user calls it."""
    from jax_lm.cli.main import main as jax_lm

    output = str(folder / "features")
    command = ["preprocess", str(corpus), "--tokenizer", str(tokenizer), "--output", output]
    if jax_lm([*command, "--max-sequence-length", str(LENGTH)]):
        sys.exit("jax-lm preprocess failed")
    return {}


def run_clm(corpus: Path, tokenizer: Path, folder: Path) -> dict[str, Any]:
    """Tokenize and group with datasets.map, as in run_clm.py."""
    import datasets
    from transformers import PreTrainedTokenizerFast

    datasets.disable_progress_bars()
    fast = PreTrainedTokenizerFast(tokenizer_file=str(tokenizer))
    rows = datasets.load_dataset(
        "json", data_files=str(corpus), split="train", cache_dir=str(folder)
    )
    tokenized = rows.map(
        lambda batch: fast(batch["text"]), batched=True, num_proc=2, remove_columns=["text"]
    )
    grouped = tokenized.map(_group_texts, batched=True, num_proc=2)
    return {"rows": len(grouped)}


def _group_texts(batch: dict[str, list[list[int]]]) -> dict[str, list[list[int]]]:
    joined = {key: [token for row in rows for token in row] for key, rows in batch.items()}
    total = len(joined["input_ids"]) // LENGTH * LENGTH
    cut = {
        key: [tokens[start : start + LENGTH] for start in range(0, total, LENGTH)]
        for key, tokens in joined.items()
    }
    return cut | {"labels": [list(row) for row in cut["input_ids"]]}


def run_tokenizers(corpus: Path, tokenizer: Path, folder: Path) -> dict[str, Any]:
    """encode_batch of the library that run_clm uses, a thousand texts at a time."""
    import tokenizers

    library = tokenizers.Tokenizer.from_file(str(tokenizer))
    texts = _texts(corpus)
    started = time.perf_counter()
    tokens = 0
    for start in range(0, len(texts), 1000):
        encodings = library.encode_batch_fast(texts[start : start + 1000])
        tokens += sum(len(encoding.ids) for encoding in encodings)
    return {"tokens": tokens, "seconds": time.perf_counter() - started}


def run_gigatoken(corpus: Path, tokenizer: Path, folder: Path) -> dict[str, Any]:
    """encode_batch of all texts at once, ids left where they are."""
    from gigatoken import Tokenizer

    library = Tokenizer.from_json(tokenizer.read_text(encoding="utf-8"))
    texts = _texts(corpus)
    started = time.perf_counter()
    layout = library.encode_batch(texts).layout
    return {"tokens": len(layout.content), "seconds": time.perf_counter() - started}


def _texts(corpus: Path) -> list[str]:
    with corpus.open(encoding="utf-8") as file:
        return [json.loads(line)["text"] for line in file]


TOOLS = {
    "jax_lm": run_ours,
    "run_clm": run_clm,
    "tokenizers": run_tokenizers,
    "gigatoken": run_gigatoken,
}

if __name__ == "__main__":
    main()

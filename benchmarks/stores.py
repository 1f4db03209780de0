"""Stores of a million documents: memory while iterating, random reads, batches, size, queries.

    python benchmarks/stores.py PATH/TO/TEXT/DIRECTORY [--documents 1000000] [--mongodb-documents N]

Documents of 100 to 900 characters are made by varying the text. Each step is a fresh process.
MongoDB's protocol is spoken by the server at --mongodb HOST:PORT, else by secantusdb, in memory.
"""

import argparse
import gzip
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import corpora
from recording import in_fresh_process, peak_megabytes, record

from jax_lm.documents.base import Cursor
from jax_lm.documents.open import open_source

CHARACTERS = (100, 900)
MEAN_BYTES = 560
"""More than a document has, so that there are enough of them."""
READS, BATCHES, BATCH = 20_000, 100, 1000
RANGE = 1000
RESULT = Path(__file__).parent / "results" / "stores.json"
PAGE = os.sysconf("SC_PAGESIZE")


def main() -> None:
    """Run the benchmark and write its result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--mongodb-documents", type=int)
    parser.add_argument("--mongodb", help="HOST:PORT of a server that runs")
    parser.add_argument("--only", choices=["sqlite", "mongodb"], help="keep the other's figures")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus.jsonl"
        step("write", str(given.texts), str(corpus), str(given.documents))
        result = json.loads(RESULT.read_text()) if given.only else {}
        if given.only != "mongodb":
            result |= step("sizes", str(corpus), str(given.documents))
            result["sqlite"] = measure_sqlite(corpus, given.documents)
        if given.only != "sqlite":
            server = nullcontext(given.mongodb) if given.mongodb else secantus()
            with server as address:
                count = given.mongodb_documents or given.documents
                result["mongodb"] = measure_mongodb(corpus, address, count)
    record("stores", result)


def measure_sqlite(corpus: Path, count: int) -> dict[str, Any]:
    """Build, size, iteration and reads of one file."""
    store = corpus.with_suffix(".db")
    built = step("build", str(corpus), str(store), str(count))
    spec = f"sqlite:{store}"
    size = {"stored_bytes": store.stat().st_size}
    return built | size | step("iterate", spec) | step("reads", spec)


def measure_mongodb(corpus: Path, address: str, count: int) -> dict[str, Any]:
    """Upload, iteration and queries of one collection."""
    uri = f"mongodb://{address}/benchmark?collections=stores"
    return step("build", str(corpus), uri, str(count)) | step("iterate", uri) | step("queries", uri)


def step(name: str, *args: str) -> dict[str, Any]:
    """One step in a process of its own."""
    values = in_fresh_process(__file__, "--step", name, *args)
    print(name, values, flush=True)
    return values


@contextmanager
def secantus() -> Iterator[str]:
    """A fresh secantusdb server, which speaks MongoDB's protocol."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    program = str(Path(sys.executable).parent / "secantusd-py")
    flags = ["--port", str(port), "--storage-path", ":memory:", "--log-level", "ERROR"]
    process = subprocess.Popen([program, *flags])
    try:
        while process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def write(texts: str, output: str, count: str) -> dict[str, Any]:
    """Make the corpus."""
    corpora.PASSAGE_CHARACTERS = CHARACTERS
    megabytes = int(count) * MEAN_BYTES // 1_000_000 + 1
    return {"written": corpora.write_corpus(Path(texts), Path(output), megabytes)}


def build(corpus: str, output: str, count: str) -> dict[str, Any]:
    """``documents build``, as a user runs it."""
    flags = [corpus, "--output", output, "--max-documents", count]
    began = time.perf_counter()
    command = [sys.executable, "-m", "jax_lm", "documents", "build", *flags]
    subprocess.run(command, check=True, stdout=sys.stderr)
    seconds = time.perf_counter() - began
    return {"build_seconds": seconds, "build_peak_megabytes": peak_megabytes()}


def sizes(corpus: str, count: str) -> dict[str, Any]:
    """Bytes of the text as it is and through gzip."""
    documents = raw = 0
    with tempfile.TemporaryFile() as packed:
        with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6) as file:
            for _, document in open_source(corpus).read(Cursor(0, 0)):
                raw += file.write(document.text.encode())
                documents += 1
                if documents == int(count):
                    break
        return {"documents": documents, "raw_bytes": raw, "gzip_bytes": packed.tell()}


def iterate(spec: str) -> dict[str, Any]:
    """Every document once: rate, and peak memory above that of the open store."""
    store = open_source(spec)
    next(store.read(Cursor(0, 0)))
    idle = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 1e6
    began = time.perf_counter()
    count = sum(1 for _ in store.read(Cursor(0, 0)))
    rate = count / (time.perf_counter() - began)
    above = peak_megabytes() * 1.024 - idle  # ru_maxrss counts KiB
    return {"iterated": count, "iterate_rate": rate, "megabytes_above_idle": above}


def reads(spec: str) -> dict[str, Any]:
    """One document at a time, and many at once, both at random."""
    store: Any = open_source(spec)
    chance = random.Random(0)
    times = [timed(lambda: store[chance.randrange(len(store))]) for _ in range(READS)]
    batches = [chance.choices(range(len(store)), k=BATCH) for _ in range(BATCHES)]
    seconds = sum(timed(lambda batch=batch: store.read_batch(batch)) for batch in batches)
    return {
        "median_read_ms": 1000 * statistics.median(times),
        "read_99th_ms": 1000 * statistics.quantiles(times, n=100)[-1],
        "batch_rate": BATCH * BATCHES / seconds,
    }


def queries(spec: str) -> dict[str, Any]:
    """A range of documents in one query, and in one query each."""
    store: Any = open_source(spec)
    chance = random.Random(0)
    together, apart = [], []
    for _ in range(5):
        start = chance.randrange(len(store) - RANGE)
        together.append(timed(lambda start=start: store.read_batch(range(start, start + RANGE))))
        apart.append(timed(lambda start=start: [store[start + i] for i in range(RANGE)]))
    return {
        "range": RANGE,
        "range_seconds": statistics.median(together),
        "one_query_each_seconds": statistics.median(apart),
    }


def timed(work: Callable[[], object]) -> float:
    """Seconds that something takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


STEPS: dict[str, Callable[..., dict[str, Any]]] = {
    "write": write,
    "build": build,
    "sizes": sizes,
    "iterate": iterate,
    "reads": reads,
    "queries": queries,
}

if __name__ == "__main__":
    if sys.argv[1:2] == ["--step"]:
        print(json.dumps(STEPS[sys.argv[2]](*sys.argv[3:])))
    else:
        main()

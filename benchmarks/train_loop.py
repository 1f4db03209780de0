"""What the whole training loop costs, over the bare compiled step and beside others' loops.

    python benchmarks/train_loop.py [--chunks N] [--rounds N]

First one run of `jax-lm train`: loader, logging every 10 steps to every file tracker, a checkpoint
every 100. In the middle between two checkpoints it pauses, and the very same compiled step is
called a hundred times on a copy of the state and one batch that lies on the device already. So both
are timed in the same minutes of the same process; the ratio is the median over such pairs.

Then our loop, Hugging Face's Trainer and one like nanoGPT's train the same shape on the same rows,
float32 on the CPU, logging and saving alike, each in a process of its own, by turns.
"""

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from recording import in_fresh_process, peak_megabytes, record

STEPS = 100
"""Of a chunk: as many as between two checkpoints."""
LOGGED = 10
BATCH = 8
VOCABULARY = 4096
SHAPE = {"num_layers": 4, "num_heads": 4, "embed_dim": 256, "context_length": 128}
BESIDE = {"num_layers": 6, "num_heads": 6, "embed_dim": 384, "context_length": 128}
"""The shape that all loops train."""
SAVED = 50
MARKS = (10, 110)
"""Steps beside others' loops between which is timed."""
SIDES = ("jax_lm", "trainer", "nanogpt")


def main() -> None:
    """Measure, and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker is not None:
        side, folder = given.worker[0], Path(given.worker[1])
        found = our_loop(folder, given.chunks) if side == "bare" else work(side, folder)
        print(json.dumps(found))
        return
    folder = Path(tempfile.mkdtemp(prefix="train-loop-"))
    try:
        features(folder)
        chunks = ("--chunks", str(given.chunks))
        found = in_fresh_process(__file__, "--worker", "bare", str(folder), *chunks)
        others = beside(folder, given.rounds)
    finally:
        shutil.rmtree(folder)
    bare = {**SHAPE, "vocab_size": VOCABULARY, "batch": BATCH, "logged": LOGGED, **found}
    shape = {**BESIDE, "vocab_size": VOCABULARY, "batch": BATCH, "saved": SAVED, "logged": LOGGED}
    record("train_loop", {"over_the_bare_step": bare, "shape": shape, "beside": others})


def beside(folder: Path, rounds: int) -> dict[str, list[dict[str, Any]]]:
    """What each side's worker says, round by round."""
    found: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    for _ in range(rounds):
        for side in SIDES:
            found[side].append(in_fresh_process(__file__, "--worker", side, str(folder)))
            print(side, found[side][-1], flush=True)
    return found


def work(side: str, folder: Path) -> dict[str, Any]:
    """One side's tokens a second and peak memory."""
    from jax_lm.loading.rows import open_rows
    from jax_lm.models.gpt2 import GPT2Config

    place = Path(tempfile.mkdtemp(prefix=f"{side}-", dir=folder))
    config = GPT2Config(**BESIDE, vocab_size=VOCABULARY, dropout=0.0)
    if side == "jax_lm":
        began, ended = our_marks(config, folder / "rows", place)
    else:
        import torch_loops

        stored = open_rows(str(folder / "rows"))
        rows = stored.take(np.arange(len(stored))).input_ids[:, : BESIDE["context_length"]]
        loop = getattr(torch_loops, side)
        every = {"batch": BATCH, "logged": LOGGED, "saved": SAVED}
        began, ended = loop(config, rows.astype(np.int64), place, marks=MARKS, **every)
    tokens = (MARKS[1] - MARKS[0]) * BATCH * BESIDE["context_length"]
    return {"tokens_per_second": tokens / (ended - began), "peak_megabytes": peak_megabytes()}


def our_marks(config: Any, rows: Path, place: Path) -> tuple[float, float]:
    """Seconds at the marked steps of a run of ours."""
    from jax_lm.trackers.jsonl import read_metrics

    steps = MARKS[1]
    run = train_as_the_command(run_config(config, rows, place / "run", steps=steps, saved=SAVED))
    at = {row["step"]: row["time"] for row in read_metrics(run / "metrics.jsonl")}
    return at[MARKS[0]], at[MARKS[1]]


class Pairs:
    """Seconds a step of the loop and of the bare step, chunk by chunk."""

    def __init__(self, step: Callable[..., Any]) -> None:
        """Time ``step``, which the loop calls through this object."""
        self._step = step
        self._calls = 0
        self._since = 0.0
        self.loop: list[float] = []
        self.bare: list[float] = []

    def __call__(self, state: Any, batch: Any) -> Any:
        """One step of the loop; in the middle of two checkpoints, the bare ones before it."""
        import jax

        if self._calls % STEPS == STEPS // 2:
            jax.block_until_ready(state)
            if self._since:
                self.loop.append((time.perf_counter() - self._since) / STEPS)
            self.bare.append(self._bare(state, batch))
            self._since = time.perf_counter()
        self._calls += 1
        return self._step(state, batch)

    def _bare(self, state: Any, batch: Any) -> float:
        import jax
        import jax.numpy as jnp

        state = jax.block_until_ready(jax.tree.map(jnp.copy, state))
        began = time.perf_counter()
        for _ in range(STEPS):
            state, _ = self._step(state, batch)
        jax.block_until_ready(state)
        return (time.perf_counter() - began) / STEPS


def our_loop(folder: Path, chunks: int) -> dict[str, Any]:
    """A run of so many pairs of chunks."""
    from jax_lm.models.gpt2 import GPT2Config
    from jax_lm.training import run

    pairs: list[Pairs] = []
    make = run.make_train_step

    def timed(*args: Any, **settings: Any) -> Pairs:
        pairs.append(Pairs(make(*args, **settings)))
        return pairs[0]

    run.make_train_step = timed
    shape = GPT2Config(**SHAPE, vocab_size=VOCABULARY, dropout=0.0)
    steps = STEPS * chunks + STEPS // 2 + 1
    config = run_config(shape, folder / "rows", folder / "run", steps=steps, saved=STEPS)
    train_as_the_command(config)
    (found,) = pairs
    # A chunk of the loop lies between the bare chunks before and after it.
    around = [(a + b) / 2 for a, b in zip(found.bare, found.bare[1:], strict=False)]
    ratios = [loop / bare for loop, bare in zip(found.loop, around, strict=True)]
    tokens = BATCH * SHAPE["context_length"]
    return {
        "chunks": len(ratios),
        "loop_seconds": statistics.median(found.loop),
        "bare_seconds": statistics.median(found.bare),
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "tokens_per_second": tokens / statistics.median(found.loop),
        "peak_megabytes": peak_megabytes(),
    }


def train_as_the_command(config: Any) -> Path:
    """What `jax-lm train` does."""
    from jax_lm.training.freed_memory import keep_freed_memory

    keep_freed_memory()
    from jax_lm.training.run import train

    return train(config, print)


def run_config(model: Any, rows: Path, place: Path, *, steps: int, saved: int) -> Any:
    """A run with every file tracker."""
    from jax_lm.training.config import (
        CheckpointConfig,
        DataConfig,
        EvaluationConfig,
        TrackingConfig,
        TrainConfig,
    )

    return TrainConfig(
        model=model,
        data=DataConfig(train=(str(rows),)),
        evaluation=EvaluationConfig(every=0, sample_tokens=0),
        checkpoint=CheckpointConfig(every=saved),
        tracking=TrackingConfig(every=LOGGED),
        run_dir=str(place),
        compilation_cache=None,
        steps=steps,
        batch_size=BATCH,
    )


def features(folder: Path) -> None:
    """Source code of the standard library, as packed rows."""
    from itertools import islice

    from jax_lm.documents.base import iterate_texts
    from jax_lm.documents.open import open_source
    from jax_lm.preprocessing.options import PreprocessOptions
    from jax_lm.preprocessing.pipeline import preprocess
    from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe

    tokenizer = train_byte_level_bpe(
        islice(iterate_texts(open_source("stdlib")), 150),
        vocab_size=VOCABULARY,
        min_frequency=2,
        special_tokens=("<|endoftext|>",),
    )
    tokenizer.save(folder / "tokenizer")
    options = PreprocessOptions(max_sequence_length=SHAPE["context_length"])
    preprocess("stdlib", folder / "tokenizer", str(folder / "rows"), options)


if __name__ == "__main__":
    main()

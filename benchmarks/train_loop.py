"""What the whole training loop costs over the bare compiled step.

    python benchmarks/train_loop.py [--chunks N]

One run of `jax-lm train`: loader, logging every 10 steps to every file tracker, a checkpoint every
100. In the middle between two checkpoints it pauses, and the very same compiled step is called a
hundred times on a copy of the state and one batch that lies on the device already. So both are
timed in the same minutes of the same process; the ratio is the median over such pairs.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recording import record, recorded

STEPS = 100
"""Of a chunk: as many as between two checkpoints."""
LOGGED = 10
SHAPE = {"num_layers": 4, "num_heads": 4, "embed_dim": 256, "context_length": 128}
BATCH = 8
VOCABULARY = 4096


def main() -> None:
    """Measure, and write it beside what other loops did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=6)
    given = parser.parse_args()
    from jax_lm.training.freed_memory import keep_freed_memory

    keep_freed_memory()  # as `jax-lm train` does
    folder = Path(tempfile.mkdtemp(prefix="train-loop-"))
    try:
        found = our_loop(folder, given.chunks)
    finally:
        shutil.rmtree(folder)
    try:
        before = recorded("train_loop")
    except FileNotFoundError:
        before = {}
    model = {**SHAPE, "vocab_size": VOCABULARY, "batch": BATCH, "dtype": "float32"}
    record("train_loop", {**before, "model": model, "logged": LOGGED, "ours": found})


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
    import resource

    from jax_lm.models.gpt2 import GPT2Config
    from jax_lm.training import run
    from jax_lm.training.config import (
        CheckpointConfig,
        DataConfig,
        EvaluationConfig,
        TrackingConfig,
        TrainConfig,
    )

    pairs: list[Pairs] = []
    make = run.make_train_step

    def timed(*args: Any, **settings: Any) -> Pairs:
        pairs.append(Pairs(make(*args, **settings)))
        return pairs[0]

    run.make_train_step = timed
    config = TrainConfig(
        model=GPT2Config(**SHAPE, vocab_size=VOCABULARY, dropout=0.0),
        data=DataConfig(train=(str(features(folder)),)),
        evaluation=EvaluationConfig(every=0, sample_tokens=0),
        checkpoint=CheckpointConfig(every=STEPS),
        tracking=TrackingConfig(every=LOGGED),
        run_dir=str(folder / "run"),
        compilation_cache=None,
        steps=STEPS * chunks + STEPS // 2 + 1,
        batch_size=BATCH,
    )
    run.train(config)
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
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def features(folder: Path) -> Path:
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
    return folder / "rows"


if __name__ == "__main__":
    main()

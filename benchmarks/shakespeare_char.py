"""nanoGPT's character-level reference on CPU, through the ordinary verbs, for three seeds.

    python benchmarks/shakespeare_char.py PATH/TO/tinyshakespeare/input.txt

The first 90 % of the characters train, the last 10 % are held out. nanoGPT's README reports a loss
of about 1.88 for this configuration, a mean over 20 random batches; the number here is over all
held-out characters in disjoint blocks of 64, at the last step.
"""

import argparse
import contextlib
import io
import json
import sys
import tempfile
import time
from pathlib import Path

from jax_lm.cli.main import main as jax_lm
from jax_lm.trackers.environment import describe

SEEDS = (1337, 1338, 1339)
BAR = 1.92
RESULT = Path(__file__).parent / "results" / "shakespeare_char.json"


def main() -> None:
    """Run the benchmark and write its result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    corpus = parser.parse_args().corpus
    with tempfile.TemporaryDirectory() as folder:
        runs = list(measure(corpus, Path(folder)))
    result = {"bar": BAR, "reference": "nanoGPT: about 1.88", "runs": runs, "machine": describe()}
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written to {RESULT}")


def measure(corpus: Path, folder: Path) -> list[dict[str, float]]:
    """Train and evaluate each seed."""
    text = corpus.read_text(encoding="utf-8")
    cut = int(len(text) * 0.9)
    for name, part in (("train", text[:cut]), ("held-out", text[cut:])):
        (folder / f"{name}.txt").write_text(part, encoding="utf-8")
    tokenizer = str(folder / "tokenizer")
    train = str(folder / "train.txt")
    plain = (
        "--kind",
        "characters",
        "--special-tokens",
    )  # none: the 65 characters alone, as nanoGPT
    verb("tokenizer", "train", train, *plain, "--output", tokenizer)
    for name in ("train", "held-out"):
        spec, prefix = str(folder / f"{name}.txt"), str(folder / name)
        length = ("--max-sequence-length", "64")
        verb("preprocess", spec, "--tokenizer", tokenizer, "--output", prefix, *length)
    return [measure_seed(folder, seed) for seed in SEEDS]


def measure_seed(folder: Path, seed: int) -> dict[str, float]:
    """One run and its loss over all held-out characters."""
    run, scores = str(folder / f"run-{seed}"), folder / f"scores-{seed}.json"
    data = ("--data.train", str(folder / "train"), "--data.validation", str(folder / "held-out"))
    started = time.perf_counter()
    verb("train", "shakespeare-char", *data, "--seed", str(seed), "--run-dir", run)
    seconds = time.perf_counter() - started
    held_out = str(folder / "held-out.txt")
    verb("evaluate", run, held_out, "--method", "disjoint", "--output", str(scores))
    values = json.loads(scores.read_text())
    print(f"seed {seed}: {values['eval_loss']:.4f} nats a character in {seconds:.0f} s", flush=True)
    return {
        "seed": seed,
        "loss": values["eval_loss"],
        "accuracy": values["eval_accuracy"],
        "bits_per_byte": values["eval_bits_per_byte"],
        "characters": values["sums"]["num_tokens"],
        "seconds": seconds,
    }


def verb(*args: str) -> None:
    """Run one verb quietly; stop the benchmark where it fails."""
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        code = jax_lm(list(args))
    if code:
        sys.exit(f"jax-lm {' '.join(args)}: {err.getvalue()}")


if __name__ == "__main__":
    main()

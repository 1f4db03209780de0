"""Four objectives on Norwegian text, tokenizer to evaluation, through the ordinary verbs.

    python benchmarks/norwegian.py PATH/TO/norwegian_ud [--minutes 3]

RoBERTa with masked language modelling, GPT-2 with causal language modelling, T5 with span
corruption and BART with denoising, at tiny sizes, each trained for so many minutes on one file and
evaluated on another. Beside each held-out loss stands the entropy of the same targets under their
own frequencies, beside each accuracy the rate of the most frequent target, and the loss that
transformers finds on the same batches with the exported directory.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from recording import record

from jax_lm.cli.main import main as jax_lm
from jax_lm.evaluation.objective_rows import objective_config
from jax_lm.loading.rows import open_rows
from jax_lm.objectives.base import RowDraws
from jax_lm.objectives.registry import make_objective
from jax_lm.pretrained import open_model
from jax_lm.types import Batch

LENGTH = 64
VOCABULARY = "2048"
BYTE_LEVEL = ("--kind", "byte-level-bpe", "--vocab-size", VOCABULARY)
SPECIAL = ("--special-tokens", "<s>", "<pad>", "</s>", "<unk>", "<mask>")
UNIGRAM = ("--kind", "sentencepiece-unigram", "--vocab-size", VOCABULARY, "--preset", "t5")


class Run(NamedTuple):
    """One of the four."""

    preset: str
    auto: str
    """Class of transformers that loads the export."""
    objective: str
    tokenizer: tuple[str, ...]
    shape: tuple[str, ...]
    rows: tuple[str, ...] = ()
    """More flags of ``preprocess``."""


WIDTH = ("--model.num-layers", "2", "--model.num-heads", "4", "--model.embed-dim", "128")
RUNS = {
    "gpt2": Run("gpt2", "AutoModelForCausalLM", "causal-lm", BYTE_LEVEL, WIDTH),
    "roberta": Run(
        "roberta-base", "AutoModelForMaskedLM", "masked-lm", (*BYTE_LEVEL, *SPECIAL), WIDTH
    ),
    "t5": Run(
        "t5-v1_1-small",
        "AutoModelForSeq2SeqLM",
        "span-corruption",
        UNIGRAM,
        (*WIDTH, "--model.head-dim", "32", "--model.mlp-dim", "384"),
    ),
    "bart": Run(
        "bart-base",
        "AutoModelForSeq2SeqLM",
        "denoising",
        (*BYTE_LEVEL, *SPECIAL),
        WIDTH,
        ("--sentences",),
    ),
}


def main() -> None:
    """Run all four and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--only", nargs="*", default=list(RUNS))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = [journey(name, given.corpus, Path(folder), given.minutes) for name in given.only]
    if given.only == list(RUNS):
        record("norwegian", {"minutes": given.minutes, "length": LENGTH, "runs": runs})


def journey(name: str, corpus: Path, folder: Path, minutes: float) -> dict[str, Any]:
    """Tokenizer, features, training, evaluation; then the same numbers by transformers."""
    run, where = RUNS[name], folder / name
    train, held_out = (str(corpus / f"no_bokmaal-ud-{part}.txt") for part in ("dev", "test"))
    tokenizer, scores = str(where / "tokenizer"), where / "scores.json"
    verb("tokenizer", "train", train, *run.tokenizer, "--output", tokenizer)
    for part, text in (("train", train), ("held-out", held_out)):
        rows = ("--objective", run.objective, "--max-sequence-length", str(LENGTH), *run.rows)
        prefix = str(where / part)
        verb("preprocess", text, "--lines", "--tokenizer", tokenizer, "--output", prefix, *rows)
    verb(
        *("train", "--model.config", run.preset, "--objective", run.objective, *run.shape),
        *("--model.context-length", str(LENGTH), "--model.dropout", "0"),
        *("--data.train", str(where / "train"), "--data.validation", str(where / "held-out")),
        *("--steps", "100000", "--max-time", str(minutes), "--batch-size", "16"),
        *("--optimizer.learning-rate", "1e-3", "--optimizer.schedule", "constant"),
        *(
            "--evaluation.every",
            "0",
            "--checkpoint.every",
            "100000",
            "--run-dir",
            str(where / "run"),
        ),
    )
    verb("evaluate", str(where / "run"), str(where / "held-out"), "--output", str(scores))
    values = json.loads(scores.read_text())
    result = {
        "model": name,
        "objective": run.objective,
        "loss": values["eval_loss"],
        "accuracy": values["eval_accuracy"],
        "targets": values["sums"]["num_tokens"],
        **compared(run, where),
    }
    print(json.dumps(result, indent=1), flush=True)
    return result


def compared(run: Run, where: Path) -> dict[str, float]:
    """The targets' own frequencies, and transformers' loss on the same batches."""
    opened = open_model(str(where / "run"))
    rows = open_rows(str(where / "held-out"))
    config = opened.model.config
    objective = make_objective(
        objective_config(run.objective, None, config),
        opened.tokenizer,
        kind=config.kind,
        input_length=LENGTH,
        decoder_start_id=getattr(config, "decoder_start_id", None),
    )
    indices = np.arange(len(rows))
    batch = objective(rows.take(indices), RowDraws(0, indices))
    targets = batch.targets[batch.loss_mask > 0]
    shares = np.unique(targets, return_counts=True)[1] / len(targets)
    auto = getattr(transformers, run.auto)
    model = auto.from_pretrained(where / "run" / "final", dtype=torch.float32).eval()
    return {
        "unigram_entropy": float(-(shares * np.log(shares)).sum()),
        "most_frequent": float(shares.max()),
        "transformers_loss": their_loss(model, batch),
    }


def their_loss(model: Any, batch: Batch, size: int = 16) -> float:
    """Mean cross-entropy of all targets, in float64."""
    nats = 0.0
    for start in range(0, len(batch.input_ids), size):
        part = slice(start, start + size)
        given = {"input_ids": torch.tensor(batch.input_ids[part])}
        if batch.segment_ids is not None:
            given["attention_mask"] = torch.tensor((batch.segment_ids[part] > 0).astype(np.int64))
        if batch.decoder_input_ids is not None:
            given["decoder_input_ids"] = torch.tensor(batch.decoder_input_ids[part])
        with torch.no_grad():
            logits = model(**given).logits.double()
        targets = torch.tensor(batch.targets[part].astype(np.int64))
        losses = -torch.take_along_dim(logits.log_softmax(-1), targets[..., None], -1)[..., 0]
        nats += float((losses * torch.tensor(batch.loss_mask[part])).sum())
    return nats / float(batch.loss_mask.sum())


def verb(*args: str) -> None:
    """Run one verb of the command line."""
    code = jax_lm(list(args))
    if code:
        raise SystemExit(f"jax-lm {' '.join(args)} failed with {code}")


if __name__ == "__main__":
    main()

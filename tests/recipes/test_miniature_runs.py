"""Every recipe trains: two steps of it, with a model as small as models get."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from jax_lm.recipes.registry import RECIPES
from jax_lm.sharding.mesh import MeshConfig
from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe
from jax_lm.trackers.jsonl import read_metrics
from jax_lm.training.config import DataConfig, TrainConfig
from jax_lm.training.run import train

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>", "<sys>", "<usr>")
SENTINELS = tuple(f"<extra_id_{i}>" for i in reversed(range(100)))
TINY: dict[str, Any] = {
    "vocab_size": None,
    "context_length": 24,
    "num_layers": 1,
    "num_heads": 2,
    "embed_dim": 16,
    "head_dim": 8,
    "mlp_dim": 32,
    "rotary_dim": 4,
}
FAST = ("gpt2-small-openwebtext", "llama-7b-finetune")
STEPS = 2


class Texts(NamedTuple):
    tokenizer: Path
    plain: Path
    pairs: Path


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Texts:
    folder = tmp_path_factory.mktemp("texts")
    pairs = [
        {"in_text": f"What is {i} plus one?", "out_text": f"It is {i + 1}."} for i in range(60)
    ]
    lines = [f"Line {i} says little. The quick brown fox saw {i * i} dogs." for i in range(120)]
    plain, asked = folder / "plain.jsonl", folder / "pairs.jsonl"
    plain.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    asked.write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    tokenizer = train_byte_level_bpe(
        iter([*lines, json.dumps(pairs)]),
        vocab_size=500,
        min_frequency=2,
        special_tokens=(*SPECIAL, *SENTINELS),
    )
    tokenizer.save(folder / "tokenizer")
    return Texts(folder / "tokenizer", plain, asked)


def miniature(config: TrainConfig, texts: Texts, folder: Path) -> TrainConfig:
    """The recipe with nothing left of its size."""
    model: Any = config.model
    small = {field.name: TINY[field.name] for field in fields(model) if field.name in TINY}
    paired = config.objective.name in ("seq2seq", "dialogue")
    return replace(
        config,
        model=replace(model, **small),
        data=DataConfig(
            train=(str(texts.pairs if paired else texts.plain),),
            validation=(str(texts.pairs if paired else texts.plain),),
            tokenizer=str(texts.tokenizer),
            mode=config.data.mode,
            target_length=12 if config.data.target_length else None,
        ),
        optimizer=replace(config.optimizer, warmup_steps=1),
        evaluation=replace(config.evaluation, every=0, batch_size=8, max_rows=8, sample_tokens=0),
        tracking=replace(config.tracking, every=1),
        mesh=MeshConfig(),
        init_from=None,
        run_dir=str(folder / "run"),
        steps=STEPS,
        epochs=None,
        tokens=None,
        batch_size=2 * config.accumulation_steps,
        compilation_cache=None,
    )


@pytest.mark.parametrize(
    "name",
    [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in RECIPES],
)
def test_two_steps(
    name: str, texts: Texts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAX_LM_CACHE", str(texts.plain.parent / "cache"))
    config = miniature(RECIPES[name](), texts, tmp_path)
    run = train(config, say=lambda line: None)
    rows = read_metrics(run / "metrics.jsonl")
    losses = [row["train/loss"] for row in rows if "train/loss" in row]
    assert len(losses) == STEPS
    assert all(0 < loss < 50 for loss in losses)
    assert (run / "final" / "model.safetensors").exists()

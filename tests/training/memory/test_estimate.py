"""The estimated memory of a step against what XLA reports for it once compiled."""

import json
import subprocess
import sys
from dataclasses import replace
from functools import cache
from typing import Any

import jax.numpy as jnp
import pytest

from jax_lm.models.gpt2 import GPT2Config
from jax_lm.models.llama import LlamaConfig
from jax_lm.models.low_rank import LoraConfig
from jax_lm.models.t5 import T5Config
from jax_lm.objectives.span_corruption import SpanCorruptionConfig
from jax_lm.optimizers.config import OptimizerConfig
from jax_lm.sharding.mesh import make_mesh
from jax_lm.training.config import TrainConfig
from jax_lm.training.memory.abstract_step import (
    AbstractStep,
    Kind,
    batch_shapes,
    compiled_size,
    trace_step,
)
from jax_lm.training.memory.estimate import MemoryEstimate, estimate
from tests.training.memory.compiled_sizes import CASES

BAR = 0.15
SIZES: dict[str, Any] = {"num_layers": 2, "num_heads": 4, "embed_dim": 128, "context_length": 128}


def gpt2(**changes: Any) -> GPT2Config:
    return GPT2Config(**SIZES | {"vocab_size": 2048, "dropout": 0.0} | changes)


def llama(**changes: Any) -> LlamaConfig:
    return LlamaConfig(**SIZES | {"vocab_size": 4096, "mlp_dim": 256} | changes)


def t5() -> T5Config:
    return T5Config(vocab_size=512, mlp_dim=256, head_dim=32, decoder_start_id=0, **SIZES)


def run(model: Any, **changes: Any) -> TrainConfig:
    return TrainConfig(model=model, **{"batch_size": 16} | changes)


SMALL = {
    "gpt2 with dropout": run(gpt2(dropout=0.1)),
    "gpt2, SGD, a large vocabulary in parts": run(
        gpt2(vocab_size=50_257),
        accumulation_steps=4,
        optimizer=OptimizerConfig(name="sgd"),
    ),
    "llama, bfloat16, remat, average": run(
        llama(), dtype="bfloat16", remat="dots", optimizer=OptimizerConfig(ema_decay=0.99)
    ),
}


def traced(config: TrainConfig, on: Kind | None = None) -> AbstractStep:
    shapes = batch_shapes(config, config.batch_size or 1)
    return trace_step(config, make_mesh(config.mesh), shapes, on=on)


def estimated(config: TrainConfig, on: Kind | None = None) -> MemoryEstimate:
    return estimate(traced(config, on))


@pytest.mark.parametrize("name", SMALL)
def test_small_steps_take_what_xla_says(name: str) -> None:
    step = traced(SMALL[name])
    found, size = estimate(step), compiled_size(step)
    state = sum(found.parts.get(name, 0) for name in ("parameters", "optimizer moments"))
    state += found.parts.get("averaged weights", 0) + found.parts["batch"]
    assert state == pytest.approx(size.arguments, rel=0.001)
    assert found.total == pytest.approx(size.total, rel=BAR)
    assert size.temporary > 0


@cache
def sizes(devices: int) -> dict[str, Any]:
    """Of all cases on so many devices, in a process that has them."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.training.memory.compiled_sizes", str(devices)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("devices", "name"), [(devices, name) for devices in CASES for name in CASES[devices]]
)
def test_real_steps_take_what_xla_says(devices: int, name: str) -> None:
    found = sizes(devices)[name]
    assert sum(found["parts"].values()) == pytest.approx(found["compiled"], rel=BAR)


def test_what_saves_memory_is_estimated_to() -> None:
    plain = run(llama())
    smaller = {
        "accumulation_steps": 4,
        "remat": "full",
        "lora": LoraConfig(rank=2),
    }
    totals = {name: estimated(run(llama(), **{name: value})) for name, value in smaller.items()}
    before = estimated(plain)
    assert all(found.total < 0.95 * before.total for found in totals.values()), totals
    kept = {name: found.parts["kept activations"] for name, found in totals.items()}
    assert kept["accumulation_steps"] * 3 < before.parts["kept activations"]
    assert totals["lora"].parts["gradients"] < before.parts["gradients"] / 4


def test_an_accelerator_never_writes_the_scores_of_flash_attention() -> None:
    half = run(gpt2(context_length=256), dtype="bfloat16")
    scores = 2 * 16 * 4 * 256 * 256  # a layer's, in bfloat16
    here, there = estimated(half, "cpu"), estimated(half, "accelerator")
    assert here.parts["kept activations"] - there.parts["kept activations"] > 2 * scores
    # Neither float32 nor dropout has flash attention.
    for other in (
        run(gpt2(context_length=256)),
        run(gpt2(context_length=256, dropout=0.1), dtype="bfloat16"),
    ):
        assert estimated(other, "accelerator").parts["kept activations"] > 2 * scores


def test_an_accelerator_takes_larger_blocks_of_logits() -> None:
    config = run(gpt2(vocab_size=50_257, num_layers=1), optimizer=OptimizerConfig(name="sgd"))
    logits = {kind: estimated(config, kind).parts for kind in ("cpu", "accelerator")}
    assert logits["accelerator"]["logits of a block"] > 4 * logits["cpu"]["logits of a block"]


def test_operations_of_a_step_are_those_of_its_products() -> None:
    model = llama(tied=False)
    found = estimated(run(model))
    attention = 4 * 128 * 128
    weights = 2 * (attention + 3 * 128 * 256) + 128 * 4096
    tokens = 16 * 128
    scores = 2 * 2 * 2 * 128 * 128  # multiply and add, query key and weights value, layers
    assert found.products == pytest.approx(3 * tokens * (2 * weights + scores), rel=0.02)
    again = estimated(run(model, remat="full"))
    assert again.products > 1.1 * found.products


def test_rows_of_pairs_and_of_corrupted_spans_have_their_own_lengths() -> None:
    config = run(t5())
    assert batch_shapes(config, 4).targets.shape == (4, 128)
    spans = batch_shapes(replace(config, objective=SpanCorruptionConfig()), 4)
    assert spans.input_ids.shape == (4, 128) and 20 < spans.targets.shape[1] < 60
    pairs = batch_shapes(replace(config, data=replace(config.data, target_length=32)), 4)
    assert pairs.decoder_input_ids is not None
    assert pairs.decoder_input_ids.shape == (4, 32)
    assert pairs.loss_mask.dtype == jnp.float32

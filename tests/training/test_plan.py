from dataclasses import replace

import pytest

from jax_lm.errors import UsageError
from jax_lm.models.gpt2 import GPT2Config
from jax_lm.models.t5 import T5Config
from jax_lm.recipes.registry import RECIPES, find_recipe
from jax_lm.training.config import TrainConfig
from jax_lm.training.measuring.throughput import Throughput, flops_per_token, peak_flops
from jax_lm.training.plan import make_plan


@pytest.fixture
def empty(config: TrainConfig) -> TrainConfig:
    return replace(config, steps=None, batch_size=None)


def test_length_in_steps_epochs_or_tokens(empty: TrainConfig) -> None:
    batched = replace(empty, batch_size=8)
    assert make_plan(replace(batched, steps=5), rows=100, row_shards=1).steps == 5
    epochs = make_plan(replace(batched, epochs=1.5), rows=100, row_shards=1)
    assert (epochs.steps, epochs.epochs) == (19, pytest.approx(1.52))
    tokens = make_plan(replace(batched, tokens=1000), rows=100, row_shards=1)
    assert (tokens.steps, tokens.tokens_per_step) == (4, 256)


def test_batch_by_device(empty: TrainConfig) -> None:
    given = replace(empty, batch_size_per_device=3, steps=1)
    assert make_plan(given, rows=100, row_shards=4).batch_size == 12


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 8}, "exactly one of --steps or --epochs or --tokens .given: none"),
        (
            {"batch_size": 8, "steps": 1, "epochs": 1},
            "given: --steps and --epochs",
        ),
        ({"steps": 1}, "--batch-size or --batch-size-per-device"),
        ({"batch_size": 8, "steps": 0}, "the run has no steps"),
        (
            {"batch_size": 6, "steps": 1},
            "batch size 6 must be a positive multiple of 4: --mesh.data x --mesh.fsdp devices",
        ),
        ({"batch_size": 0, "steps": 1}, "batch size 0"),
    ],
)
def test_contradictions_are_refused(
    empty: TrainConfig, changes: dict[str, int], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        make_plan(replace(empty, **changes), rows=100, row_shards=4)


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_resolves_and_says_what_it_costs(name: str) -> None:
    recipe = find_recipe(name)
    assert make_plan(recipe(), rows=1000, row_shards=1).steps > 0
    assert recipe.__doc__ is not None
    for word in ("Data:", "Cost:", "Reaches:"):
        assert word in recipe.__doc__


def test_unknown_recipe_names_them_all() -> None:
    with pytest.raises(UsageError, match="quickstart, shakespeare-char, gpt2-small"):
        find_recipe("gpt5")


def test_throughput_leaves_out_what_is_not_training() -> None:
    now = 0.0
    throughput = Throughput(flops_per_token=10.0, peak_flops=1000.0, clock=lambda: now)
    assert throughput.read() == {}
    throughput.count(100)
    now = 2.0
    with throughput.excluded():
        now = 50.0
    assert throughput.read() == {"train/tokens_per_second": 50.0, "train/mfu": 0.5}
    throughput.count(10)
    now = 51.0
    assert throughput.read()["train/tokens_per_second"] == 10.0


def test_flops_of_gpt2_small() -> None:
    """6 N + 12 L H Q T of PaLM's appendix B, with N the 124.4 M less the positions."""
    model = GPT2Config(vocab_size=50257)
    assert flops_per_token(model, 512) == pytest.approx(
        6 * (124_439_808 - 1024 * 768) + 12 * 12 * 12 * 64 * 512
    )


def test_flops_of_an_encoder_decoder_are_those_of_its_stacks() -> None:
    """Two stacks as deep, read and written in rows of one length: each token meets one of them."""
    model = T5Config(
        vocab_size=128, num_layers=2, num_heads=2, head_dim=8, embed_dim=16, mlp_dim=32
    )
    attention, feed_forward = 4 * 16 * 16, 2 * 16 * 32
    encoder = 2 * (attention + feed_forward + 2 * 16) + 16 + 32 * 2
    decoder = 2 * (2 * attention + feed_forward + 3 * 16) + 16 + 32 * 2
    scores = 12 * 2 * 16 * (10**2 + 10**2 + 10**2)
    row = 6 * 10 * (encoder + decoder + 128 * 16) + scores
    assert flops_per_token(model, 10, 10) == pytest.approx(row / 20)


def test_peak_is_the_datasheets_or_unknown() -> None:
    assert peak_flops("NVIDIA H100 80GB HBM3", None) == 989e12
    assert peak_flops("cpu", None) is None
    assert peak_flops("cpu", 0.5) == 0.5e12

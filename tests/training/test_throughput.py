import pytest

from jax_lm.models.gpt2 import GPT2Config
from jax_lm.models.t5.config import T5Config
from jax_lm.training.measuring.throughput import Throughput, flops_per_token, peak_flops


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_seconds_are_split_and_evaluations_left_out() -> None:
    clock = Clock()
    throughput = Throughput(2.0, 1000.0, clock)
    for _ in range(4):
        with throughput.waiting():
            clock.now += 0.25
        clock.now += 0.75
        throughput.count(50)
    with throughput.excluded():
        clock.now += 60.0
    assert throughput.read() == {
        "train/tokens_per_second": pytest.approx(50.0),
        "train/step_seconds": pytest.approx(1.0),
        "train/data_seconds": pytest.approx(0.25),
        "train/mfu": pytest.approx(0.1),
    }
    assert throughput.read() == {}


def test_what_was_waited_for_counts_once() -> None:
    clock = Clock()
    throughput = Throughput(2.0, None, clock)
    with throughput.waiting():
        clock.now += 5.0  # for the first batch, before compilation
    throughput.start()
    clock.now += 2.0
    throughput.count(10)
    found = throughput.read()
    assert (found["train/data_seconds"], found["train/step_seconds"]) == (0.0, 2.0)
    assert "train/mfu" not in found


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

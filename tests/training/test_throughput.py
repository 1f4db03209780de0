import pytest

from jax_lm.training.measuring.throughput import Throughput


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

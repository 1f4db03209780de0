from io import StringIO

import pytest

from jax_lm.trackers.console import ConsoleTracker, Progress, duration, short_number


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_lines_come_every_few_seconds_and_at_the_end() -> None:
    clock, stream = Clock(), StringIO()
    with Progress(30, "files", label="preprocess", stream=stream, clock=clock) as progress:
        for _ in range(30):
            clock.now += 1.0
            progress.update(rows=7)
    assert stream.getvalue().splitlines() == [
        "preprocess 5/30 files  rows 7  1 files/s  25s left",
        "preprocess 10/30 files  rows 7  1 files/s  20s left",
        "preprocess 15/30 files  rows 7  1 files/s  15s left",
        "preprocess 20/30 files  rows 7  1 files/s  10s left",
        "preprocess 25/30 files  rows 7  1 files/s  5s left",
        "preprocess 30/30 files  rows 7  1 files/s",
    ]


def test_the_time_before_the_first_update_is_no_part_of_the_rate() -> None:
    clock, stream = Clock(), StringIO()
    progress = Progress(1000, "rows", initial=500, stream=stream, clock=clock)
    clock.now = 100.0  # compiling
    progress.update(1)
    clock.now = 110.0
    progress.update(99)
    assert progress.line() == "600/1,000 rows  9.9 rows/s  40s left"


def test_the_rate_can_count_from_the_start() -> None:
    clock, stream = Clock(), StringIO()
    progress = Progress(6, "texts", stream=stream, clock=clock).measure_from_start()
    clock.now = 8.0
    progress.update(4)  # all at once, as a beam search has them
    assert progress.line() == "4/6 texts  0.5 texts/s  4s left"


def test_an_unknown_total_has_no_time_left() -> None:
    clock, stream = Clock(), StringIO()
    with Progress(None, "tokens", label="scored", stream=stream, clock=clock) as progress:
        progress.update(10)
        clock.now = 1.0
        progress.update(2000)
    assert stream.getvalue() == "scored 2,010 tokens  2k tokens/s\n"


def test_closing_says_nothing_twice() -> None:
    stream = StringIO()
    progress = Progress(2, "files", stream=stream)
    progress.update(2)
    progress.close()
    progress.close()
    assert stream.getvalue().count("\n") == 1


def test_a_terminal_gets_a_bar() -> None:
    stream = Terminal()
    with Progress(4, "files", label="read", stream=stream) as progress:
        progress.update(1, loss=3.14159)
        progress.message("a line above")
        progress.update(3)
    shown = stream.getvalue()
    assert "4/4" in shown
    assert "loss 3.142" in shown
    assert "a line above\n" in shown


def test_training_reads_like_a_sentence() -> None:
    clock, stream = Clock(), StringIO()
    tracker = ConsoleTracker(380, stream=stream, clock=clock)
    for step in (1, 100):
        clock.now += 40.0
        tracker.log(
            step,
            {
                "train/loss": 3.2141,
                "train/learning_rate": 1e-3,
                "train/tokens_per_second": 12345.0,
            },
        )
    tracker.log(100, {"val/loss": 3.1, "val/bits_per_byte": 1.9, "val/github/loss": 2.0})
    tracker.sample(100, "def ", "main():\n  pass")
    tracker.close()
    assert stream.getvalue().splitlines() == [
        "step 1/380  loss 3.214  lr 1.0e-03  12.3k tok/s",
        "step 100/380  loss 3.214  lr 1.0e-03  12.3k tok/s  1m53s left",
        "step 100  held-out: loss 3.1  bits per byte 1.9",
        "step 100  held-out github: loss 2",
        "step 100  sample:",
        "    | def main():",
        "    |   pass",
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.314, "0.314"), (42.0, "42"), (12345.0, "12.3k"), (1_050_000, "1.05M"), (7e9, "7G")],
)
def test_short_numbers(value: float, shown: str) -> None:
    assert short_number(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.4, "0s"), (59.6, "1m00s"), (80, "1m20s"), (11_100, "3h05m")]
)
def test_durations(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown

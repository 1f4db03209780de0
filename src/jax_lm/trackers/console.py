"""Progress for a person: a bar on a terminal, plain periodic lines in a log."""

import sys
import time
from collections.abc import Callable, Mapping
from typing import NoReturn, TextIO

from tqdm import tqdm

from jax_lm.trackers.base import Histogram
from jax_lm.trackers.samples import whole_text

LINE_SECONDS = 5.0
TRAINING_LINE_SECONDS = 15.0


class Progress:
    """How far a long piece of work is, how fast it goes and how long it will take.

    On a terminal this is a tqdm bar; elsewhere a line at most every few seconds, and one at the
    end. Use it as a context manager, or close it.
    """

    def __init__(
        self,
        total: int | None,
        unit: str = "",
        *,
        label: str = "",
        initial: int = 0,
        stream: TextIO | None = None,
        line_seconds: float = LINE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin at ``initial``.

        Args:
            total: what ``done`` will reach, or None if that is not known.
            unit: what is counted, in the plural (``documents``); empty: no rate is shown.
            label: begins each line.
            initial: what was done before, in a resumed run.
            stream: stderr by default.
            line_seconds: least time between two lines, in seconds.
            clock: seconds from any origin.
        """
        self.total, self.unit, self.label, self.done = total, unit, label, initial
        self._stream = sys.stderr if stream is None else stream
        self._line_seconds, self._clock = line_seconds, clock
        self._last_line = clock()
        self._said = initial
        self._origin: tuple[float, int] = (self._last_line, initial)
        self._fields: dict[str, float | str] = {}
        self._initial, self._from_start = initial, False
        self._bar = self._open_bar() if self._stream.isatty() else None

    def _open_bar(self) -> "tqdm[NoReturn]":
        return tqdm(
            total=self.total,
            initial=self.done,
            desc=self.label or None,
            unit=f" {self.unit}" if self.unit else "it",
            unit_scale=bool(self.total and self.total > 100_000),
            dynamic_ncols=True,
            file=self._stream,
            leave=True,
        )

    def measure_from_start(self) -> "Progress":
        """Let the rate count the time before the first update too, where that is work."""
        self._from_start = True
        return self

    def update(self, count: int = 1, **fields: float | str) -> None:
        """``count`` more are done; ``fields`` are shown from now on (``loss=3.2``)."""
        if self.done == self._initial and not self._from_start:
            # What comes before the first update (compilation) says nothing about the rate.
            self._origin = (self._clock(), self.done + count)
        self.done += count
        self._fields |= fields
        if self._bar is not None:
            self._bar.set_postfix_str(", ".join(_shown(*item) for item in self._fields.items()))
            self._bar.update(count)
        elif self._clock() - self._last_line >= self._line_seconds or self.done == self.total:
            self._write_line()

    def message(self, text: str) -> None:
        """Print a line of its own, above the bar if there is one."""
        if self._bar is not None:
            self._bar.write(text, file=self._stream)
        else:
            self._stream.write(f"{text}\n")
            self._stream.flush()

    def line(self) -> str:
        """The state as one line of text."""
        count = f"{self.done:,}" if self.total is None else f"{self.done:,}/{self.total:,}"
        parts = [f"{self.label} {count} {self.unit}".strip()]
        parts += [_shown(*item) for item in self._fields.items()]
        rate = self._rate()
        if rate is not None and self.unit:
            parts.append(f"{short_number(rate)} {self.unit}/s")
        if rate is not None and self.total is not None and self.done < self.total:
            parts.append(f"{duration((self.total - self.done) / rate)} left")
        return "  ".join(parts)

    def close(self) -> None:
        """End with a last line, or leave the bar as it is; calling it again does nothing."""
        if self._bar is not None:
            self._bar.close()
        elif self._said != self.done:
            self._write_line()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _rate(self) -> float | None:
        began, done = self._origin
        elapsed = self._clock() - began
        return (self.done - done) / elapsed if elapsed > 0 and self.done > done else None

    def _write_line(self) -> None:
        self._last_line, self._said = self._clock(), self.done
        self._stream.write(f"{self.line()}\n")
        self._stream.flush()


class ConsoleTracker:
    """Shows training as it goes; every evaluation gets a line of its own."""

    def __init__(
        self,
        total_steps: int,
        *,
        initial_step: int = 0,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Show the way from ``initial_step`` to ``total_steps`` on ``stream`` (stderr)."""
        self.progress = Progress(
            total_steps,
            label="step",
            initial=initial_step,
            stream=stream,
            line_seconds=TRAINING_LINE_SECONDS,
            clock=clock,
        )

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Move on to ``step``; held-out metrics are printed at once."""
        training = _training_fields(metrics)
        if training:
            self.progress.update(max(0, step - self.progress.done), **training)
        for name, values in _held_out(metrics).items():
            shown = "  ".join(f"{_words(key)} {value:.4g}" for key, value in values.items())
            self.progress.message(f"step {step:,}  {name}: {shown}")

    def sample(self, step: int, prompt: str, text: str) -> None:
        """Print the text, indented under its step."""
        whole = whole_text(prompt, text)
        lines = "\n".join(f"    | {line}" for line in whole.splitlines())
        self.progress.message(f"step {step:,}  sample:\n{lines}")

    def histogram(self, step: int, values: Mapping[str, Histogram]) -> None:
        """A terminal has no room for distributions."""

    def close(self) -> None:
        """End the bar or print the last line."""
        self.progress.close()


def say_line(text: str) -> None:
    """Print a line on standard output, above the bar if one is shown."""
    tqdm.write(text)


def short_number(value: float) -> str:
    """A number in at most five characters: ``0.31``, ``42.0``, ``12.3k``, ``1.05M``."""
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{suffix}"
    return f"{value:.3g}"


def duration(seconds: float) -> str:
    """Seconds as ``45s``, ``1m20s`` or ``3h05m``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def _training_fields(metrics: Mapping[str, float]) -> dict[str, float | str]:
    fields: dict[str, float | str] = {}
    if "train/loss" in metrics:
        fields["loss"] = f"{metrics['train/loss']:.3f}"
    if "train/learning_rate" in metrics:
        fields["lr"] = f"{metrics['train/learning_rate']:.1e}"
    if "train/tokens_per_second" in metrics:
        fields["tok/s"] = short_number(metrics["train/tokens_per_second"])
    return fields


def _held_out(metrics: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """``val/loss`` -> {"held-out": {"loss": ...}}; ``val/NAME/loss`` -> {"held-out NAME": ...}."""
    found: dict[str, dict[str, float]] = {}
    for name, value in metrics.items():
        if name.startswith("val/"):
            subset, _, key = name.removeprefix("val/").rpartition("/")
            found.setdefault(f"held-out {subset}".strip(), {})[key] = value
    return found


def _words(key: str) -> str:
    return key.replace("_", " ")


def _shown(name: str, value: float | str) -> str:
    text = value if isinstance(value, str) else f"{value:.4g}"
    return f"{text} {name}" if name.endswith("/s") else f"{name} {text}"

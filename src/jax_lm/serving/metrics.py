"""Counts in the text format that Prometheus scrapes.

https://prometheus.io/docs/instrumenting/exposition_formats/. All are changed by the event loop's
thread alone, so nothing is locked.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of a histogram's buckets."""


class Count:
    """A number that only grows, for each combination of labels."""

    def __init__(self, name: str, text: str, labels: Sequence[str] = ()) -> None:
        self.name, self.text, self.labels = name, text, tuple(labels)
        self.values: Counter[tuple[str, ...]] = Counter() if labels else Counter({(): 0})

    def add(self, *labels: str, by: int = 1) -> None:
        """Count ``by`` more."""
        self.values[labels] += by

    def lines(self) -> Iterator[str]:
        """The exposition."""
        yield from _head(self.name, self.text, "counter")
        for values, count in sorted(self.values.items()):
            yield f"{self.name}{_labels(self.labels, values)} {count}"


class Gauge:
    """A number read when it is asked for."""

    def __init__(self, name: str, text: str, read: Callable[[], float]) -> None:
        self.name, self.text, self.read = name, text, read

    def lines(self) -> Iterator[str]:
        """The exposition."""
        yield from _head(self.name, self.text, "gauge")
        yield f"{self.name} {self.read():g}"


class Histogram:
    """How often a duration was at most so many seconds."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text
        self.counts = [0] * (len(SECONDS) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.sum += seconds

    def lines(self) -> Iterator[str]:
        """The exposition."""
        yield from _head(self.name, self.text, "histogram")
        total = 0
        for bound, count in zip([*map(str, SECONDS), "+Inf"], self.counts, strict=True):
            total += count
            yield f'{self.name}_bucket{{le="{bound}"}} {total}'
        yield f"{self.name}_sum {self.sum:.6f}"
        yield f"{self.name}_count {total}"


class Metrics:
    """What a server counts."""

    def __init__(self) -> None:
        self.requests = Count(
            "jax_lm_requests_total", "Answered requests.", ("route", "method", "status")
        )
        self.tokens = Count("jax_lm_tokens_total", "Tokens read and written.", ("kind",))
        self.first_token = Histogram(
            "jax_lm_time_to_first_token_seconds",
            "From the request's arrival to the first token of each text.",
        )
        self.texts = Histogram(
            "jax_lm_text_seconds",
            "From the request's arrival to the end of each text that was finished.",
        )
        self.ended = Count("jax_lm_texts_total", "Texts that ended, by why.", ("reason",))
        self.gauges: list[Gauge] = []

    def watch(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Add a number that is read at each scrape."""
        self.gauges.append(Gauge(name, text, read))

    def page(self) -> str:
        """All of them."""
        every: list[Count | Histogram | Gauge]
        every = [self.requests, self.tokens, self.ended, self.first_token, self.texts, *self.gauges]
        return "".join(f"{line}\n" for one in every for line in one.lines())


def _head(name: str, text: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _labels(names: Sequence[str], values: Sequence[str]) -> str:
    if not names:
        return ""
    escaped = [_escaped(value) for value in values]
    return "{" + ",".join(f'{n}="{v}"' for n, v in zip(names, escaped, strict=True)) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

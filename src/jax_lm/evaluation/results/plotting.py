"""Evaluations as pictures: a line for each subset, or curves over a run's checkpoints."""

from collections.abc import Sequence
from pathlib import Path

from jax_lm.evaluation.results.bootstrap import LEVEL
from jax_lm.evaluation.results.result import Evaluation
from jax_lm.evaluation.results.table import ALL, MEAN
from jax_lm.evaluation.results.writing import check_place
from jax_lm.files.atomic import write_text
from jax_lm.trackers.svg_chart import Series
from jax_lm.trackers.svg_file import Bar, Reference, interval_figure, line_figure, reference_colour

LABELS = {"bits_per_byte": "bits per UTF-8 byte", "loss": "loss (nats / token)"}
MOST_CURVES = 7
"""Subsets with a curve of their own; more could not be told apart."""


def write_plot(found: Sequence[Evaluation], path: Path) -> Path:
    """Draw one evaluation by subset, or several by step; gives ``path``.

    Raises:
        JaxLMError: the file cannot be written.
    """
    check_place(path)
    picture = by_subset(found[0]) if len(found) == 1 else by_step(found)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, picture)
    return path


def by_subset(found: Evaluation) -> str:
    """Every subset's number with its interval, and what compressors reach on all of them."""
    number = found.main_number
    bars = [_bar(found, ALL, None)]
    if found.has_subsets:
        mean = found.subset_mean_intervals.get(number)
        bars.append(Bar(MEAN, found.subset_mean[number], mean))
        bars += [_bar(found, name or "unnamed", name) for name in sorted(found.scores)]
    known = any(bar.bounds for bar in bars)
    dots = f"value with {LEVEL:.0%} interval" if known else "value"
    references = [Reference(name, value) for name, value in found.compressors.items()]
    method = found.method.partition(" (")[0]
    title = f"{_words(number)} of {_last(found.model)}, {method}, {found.counted}"
    return interval_figure(title, bars, references, LABELS[number], dots)


def by_step(found: Sequence[Evaluation]) -> str:
    """The whole and the subsets over the steps of a run's checkpoints."""
    first = found[0]
    number = first.main_number
    steps = [float(one.step or 0) for one in found]
    subsets: list[str | None] = [None]
    if first.has_subsets and len(first.scores) <= MOST_CURVES:
        subsets += sorted(first.scores)
    series = [_curve(found, steps, name, colour) for colour, name in enumerate(subsets)]
    for index, (label, value) in enumerate(first.compressors.items()):
        ends, colour = [(steps[0], value), (steps[-1], value)], reference_colour(index)
        series.append(Series(label=label, points=ends, colour=colour, dashed=True))
    title = f"{_words(number)} over training, {first.method.partition(' (')[0]}, {first.counted}"
    bars = f" (bars: {LEVEL:.0%} intervals)" if any(one.bounds for one in series) else ""
    return line_figure(title, series, "step", LABELS[number] + bars)


def _bar(found: Evaluation, label: str, subset: str | None) -> Bar:
    scores = found.everything if subset is None else found.scores[subset]
    number = found.main_number
    return Bar(label, getattr(scores, number), found.intervals[subset].get(number))


def _curve(
    found: Sequence[Evaluation], steps: Sequence[float], subset: str | None, colour: int
) -> Series:
    bars = [_bar(one, "", subset) for one in found]
    bounds = [bar.bounds for bar in bars if bar.bounds is not None]
    return Series(
        label=ALL if subset is None else subset or "unnamed",
        points=[(step, bar.value) for step, bar in zip(steps, bars, strict=True)],
        colour=colour,
        markers=True,
        dashed=False,
        bounds=bounds if len(bounds) == len(bars) else (),
    )


def _words(number: str) -> str:
    return number.replace("_", " ").capitalize()


def _last(path: str) -> str:
    """The end of a long path, enough to tell which model it is."""
    parts = Path(path).parts
    return "/".join(parts[-2:])

"""An evaluation as a table for a person."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from jax_lm.evaluation.results.bootstrap import LEVEL, Interval

if TYPE_CHECKING:
    from jax_lm.evaluation.results.result import Evaluation

ALL, MEAN = "all", "mean of subsets"
MEAN_WIDTH = len(MEAN)
NUMBERS = {"loss": "9.4f", "perplexity": "12.3f", "accuracy": "10.4f", "bits_per_byte": "15.4f"}


def table(found: "Evaluation") -> str:
    """The numbers, what was scored and how."""
    everything = found.everything
    shown: list[tuple[str, str | None, int, int, dict[str, float]]] = [
        (ALL, None, len(found.tally), everything.num_tokens, everything.numbers())
    ]
    if found.has_subsets:
        shown += [
            (name or "unnamed", name, len(found.tally.scored(name)), one.num_tokens, one.numbers())
            for name, one in sorted(found.scores.items())
        ]
    names = [name for name, *_ in shown] + [MEAN] * found.has_subsets
    width = max(map(len, [*names, "subset"])) + 2
    lines = [
        f"model      {found.model}",
        f"text       {found.source}: {found.counted}"
        + (f", {everything.num_bytes:,} UTF-8 bytes scored" if everything.num_bytes else ""),
        f"method     {found.method}",
        f"intervals  {found.how_intervals}",
        "",
        f"{'subset':<{width}}{found.unit:>10}{'tokens':>12}{_heading(found)}",
    ]
    for name, subset, count, tokens, numbers in shown:
        counts = f"{name:<{width}}{count:>10,}{tokens:>12,}"
        lines.append(counts + _numbers(found, numbers, found.intervals[subset]))
    if found.has_subsets:
        mean = _numbers(found, found.subset_mean, found.subset_mean_intervals)
        lines.append(f"{MEAN:<{width}}{'':>22}{mean}")
    return "\n".join([*lines, *_footer(found)])


def _heading(found: "Evaluation") -> str:
    """Above what ``_numbers`` gives."""
    numbers = "     loss  perplexity  accuracy  bits per byte"
    if not found.intervals[None]:
        return numbers
    interval = f"{LEVEL:.0%} interval{'' if found.everything.num_bytes else ' of loss'}"
    return f"{numbers}  {interval:>18}"


def _numbers(
    found: "Evaluation", numbers: Mapping[str, float], intervals: Mapping[str, Interval]
) -> str:
    cells = [
        _cell(numbers[name], shape) if name in numbers else f"{'-':>{shape.split('.')[0]}}"
        for name, shape in NUMBERS.items()
    ]
    if not found.intervals[None]:
        return "".join(cells)
    bounds = intervals.get(found.main_number)
    interval = "-" if bounds is None else f"{bounds.low:.4f} - {bounds.high:.4f}"
    return f"{''.join(cells)}  {interval:>18}"


def _cell(value: float, shape: str) -> str:
    """Of the column's width, also where the value is large."""
    width = shape.split(".", maxsplit=1)[0]
    return f"{value:>{shape}}" if abs(value) < 1e6 else f"{value:>{width}.4g}"


def _footer(found: "Evaluation") -> list[str]:
    lines = []
    others = {
        name.replace("_", " "): value
        for name, value in found.everything.numbers().items()
        if name in ("word_perplexity", "byte_perplexity")
    }
    if others:
        lines.append(", ".join(f"{name} {value:.6g}" for name, value in others.items()))
    if found.compressors:
        shown = ", ".join(f"{name} {value:.4f}" for name, value in found.compressors.items())
        lines.append(f"bits per byte of compressors, documents one by one: {shown}")
    return ["", *lines] if lines else []


def checkpoint_lines(found: "Evaluation", *, first: bool) -> list[str]:
    """One line for a checkpoint; above the first, what all of them share."""
    mean = found.has_subsets
    lines = []
    if first:
        lines = [
            f"model      {Path(found.model).parent}: every checkpoint",
            f"text       {found.source}: {found.counted}",
            f"method     {found.method}",
            f"intervals  {found.how_intervals}",
            *_footer(found)[-1:][: bool(found.compressors)],
            "",
            f"{'step':>10}{_heading(found)}" + f"  {MEAN:>{MEAN_WIDTH}}" * mean,
        ]
    line = f"{found.step or 0:>10,}"
    line += _numbers(found, found.everything.numbers(), found.intervals[None])
    if mean:
        line += f"  {_cell(found.subset_mean[found.main_number], f'{MEAN_WIDTH}.4f')}"
    return [*lines, line]

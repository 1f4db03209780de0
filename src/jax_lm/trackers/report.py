"""One HTML file that shows a run, or several side by side, in any browser and with no network."""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import jax_lm
from jax_lm.errors import UsageError
from jax_lm.trackers.console import duration, short_number
from jax_lm.trackers.run_record import RunRecord, read_run
from jax_lm.trackers.samples import Sample
from jax_lm.trackers.svg_chart import Series, line_chart

SAMPLES_SHOWN = 40
"""The latest ones; the rest stay in the run's folder, and the report says so."""

CHARTS = (
    ("Learning rate", "train/learning_rate", "learning rate", False),
    ("Throughput", "train/tokens_per_second", "tokens / s", True),
    ("Gradient norm", "train/grad_norm", "global norm", True),
    ("Model FLOPs utilisation", "train/mfu", "share of peak", True),
    ("Time of a step", "train/step_seconds", "seconds", True),
    ("Waiting for data", "train/data_seconds", "seconds / step", True),
    ("Memory", "train/memory_gb", "GB", False),
    ("Loss scale", "train/loss_scale", "times", False),
)


class Headline(NamedTuple):
    """One of the numbers a run is judged by."""

    label: str
    shown: str
    exact: str
    """Shown when the pointer rests on it."""


def write_report(run_dirs: Sequence[Path], output: Path) -> Path:
    """Write the report of the runs and return ``output``.

    Raises:
        JaxLMError: a run has no metrics, or one of its files is malformed.
    """
    if not run_dirs:
        raise UsageError("name at least one run directory")
    runs = _named_apart([read_run(directory) for directory in run_dirs], run_dirs)
    page = _page(runs)
    output.parent.mkdir(parents=True, exist_ok=True)
    temporary = output.with_name(f"_{output.name}.tmp")
    temporary.write_text(page, encoding="utf-8", errors="replace")
    temporary.replace(output)
    return output


def _named_apart(runs: list[RunRecord], run_dirs: Sequence[Path]) -> dict[str, RunRecord]:
    """Runs by name; where two folders share a name, by path."""
    names = [run.name for run in runs]
    return {
        run.name if names.count(run.name) == 1 else str(directory): run
        for run, directory in zip(runs, run_dirs, strict=True)
    }


def _page(runs: Mapping[str, RunRecord]) -> str:
    title = " · ".join(runs)
    style = resources.files("jax_lm.trackers").joinpath("report.css").read_text(encoding="utf-8")
    written = time.strftime("%Y-%m-%d %H:%M")
    configs = {name: run.config for name, run in runs.items()}
    sections = [
        _summary(runs),
        _section("What differs", _table(configs, differing=True) if len(runs) > 1 else ""),
        _section("Curves", f'<div class="charts">{_charts(runs)}</div>'),
        _section("Samples", _samples(runs)),
        _section("Configuration", _table(configs)),
        _section("Environment", _table({name: run.environment for name, run in runs.items()})),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{escape(title)} · jax-lm report</title>\n<style>\n{style}</style></head>\n"
        f"<body><main><header><h1>{escape(title)}</h1>"
        f"<p>Training report, written {written} by jax-lm {jax_lm.__version__}</p></header>\n"
        f"{''.join(sections)}</main></body></html>\n"
    )


def _section(title: str, body: str) -> str:
    return f"<section><h2>{title}</h2>{body}</section>\n" if body else ""


def _summary(runs: Mapping[str, RunRecord]) -> str:
    if len(runs) > 1:
        rows = {
            name: {one.label: one.shown for one in _headlines(run)} for name, run in runs.items()
        }
        return _section("Results", _table(rows))
    tiles = "".join(
        f'<div><dt>{escape(one.label)}</dt><dd title="{one.exact}">{one.shown}</dd></div>'
        for run in runs.values()
        for one in _headlines(run)
    )
    return f'<section><dl class="tiles">{tiles}</dl></section>\n'


def _headlines(run: RunRecord) -> list[Headline]:
    held_out = next(iter(run.held_out_sets()), "val")
    elapsed = run.seconds()
    rates = sorted(rate for _, rate in run.points("train/tokens_per_second"))
    rows: list[tuple[str, float | None, Callable[[float], str]]] = [
        ("Steps", run.rows[-1]["step"], lambda value: f"{value:,.0f}"),
        ("Training loss", run.last("train/loss"), _four_digits),
        (f"Held-out loss{_of(held_out)}", run.last(f"{held_out}/loss"), _four_digits),
        (f"Perplexity{_of(held_out)}", run.last(f"{held_out}/perplexity"), _four_digits),
        (f"Bits per byte{_of(held_out)}", run.last(f"{held_out}/bits_per_byte"), _four_digits),
        ("Tokens seen", run.last("train/tokens"), short_number),
        ("Tokens / s", rates[len(rates) // 2] if rates else None, short_number),
        ("Wall time", elapsed, duration),
        ("Rows with a non-finite value", run.nonfinite_rows() or None, lambda value: f"{value:,}"),
    ]
    return [
        Headline(label, show(value), repr(value))
        for label, value, show in rows
        if value is not None
    ]


def _four_digits(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 100 else f"{value:,.1f}"


def _of(held_out: str) -> str:
    return "" if held_out == "val" else f" ({held_out.removeprefix('val/')})"


def _charts(runs: Mapping[str, RunRecord]) -> str:
    by_tokens = all(run.points("train/tokens") for run in runs.values())
    x_label = "tokens seen" if by_tokens else "step"

    def points(run: RunRecord, metric: str) -> list[tuple[float, float]]:
        return run.over_tokens(metric) if by_tokens else run.points(metric)

    loss = _loss_series(runs, points)
    end = max((x for series in loss for x, _ in series.points), default=0.0)
    charts = [
        line_chart("Loss", loss, x_label, "nats / token"),
        line_chart("Loss, second half", _from(loss, end / 2), x_label, "nats / token"),
    ]
    for title, metric, y_label, smooth in CHARTS:
        series = [
            Series(label=name, points=points(run, metric), colour=2 * index, smooth=smooth)
            for index, (name, run) in enumerate(runs.items())
        ]
        charts.append(line_chart(title, series, x_label, y_label))
    return "".join(charts)


def _loss_series(
    runs: Mapping[str, RunRecord], points: Callable[[RunRecord, str], list[tuple[float, float]]]
) -> list[Series]:
    series = []
    for index, (name, run) in enumerate(runs.items()):
        prefix = f"{name}: " if len(runs) > 1 else ""
        curve = points(run, "train/loss")
        series.append(
            Series(label=f"{prefix}training", points=curve, colour=2 * index, smooth=True)
        )
        for offset, held_out in enumerate(run.held_out_sets()):
            label = f"{prefix}held-out{_of(held_out)}"
            colour = 2 * index + 1 + 2 * offset if len(runs) == 1 else 2 * index
            curve = points(run, f"{held_out}/loss")
            series.append(Series(label=label, points=curve, colour=colour, markers=True))
    return series


def _from(series: Sequence[Series], start: float) -> list[Series]:
    """The curves from ``start`` on; none if too little is left to look at."""
    later = [
        dataclasses.replace(one, points=[(x, y) for x, y in one.points if x >= start])
        for one in series
    ]
    return later if any(len(one.points) >= 10 for one in later) else []


def _samples(runs: Mapping[str, RunRecord]) -> str:
    parts = []
    for name, run in runs.items():
        latest_first = list(reversed(run.samples))
        shown = latest_first[:SAMPLES_SHOWN]
        if shown and len(runs) > 1:
            parts.append(f"<h3>{escape(name)}</h3>")
        parts.extend(_sample(sample, opened=sample.step == shown[0].step) for sample in shown)
        if len(latest_first) > len(shown):
            left = len(latest_first) - len(shown)
            parts.append(f"<p>{left} earlier samples are in the run's samples folder.</p>")
    return "".join(parts)


def _sample(sample: Sample, *, opened: bool) -> str:
    prompt = escape(sample.prompt)
    rest = escape(sample.text.removeprefix(sample.prompt))
    return (
        f"<details{' open' if opened else ''}>"
        f"<summary>Step {sample.step:,}<code>{prompt}</code></summary>"
        f"<pre><mark>{prompt}</mark>{rest}</pre></details>"
    )


def _table(columns: Mapping[str, Mapping[str, Any]], *, differing: bool = False) -> str:
    """Nested values as rows under dotted names; rows in which the runs differ are marked.

    Where ``differing`` is asked for, they are all there is.
    """
    flat = {name: _flat(values) for name, values in columns.items()}
    keys = list(dict.fromkeys(key for values in flat.values() for key in values))
    if differing:
        keys = [key for key in keys if len({column.get(key) for column in flat.values()}) > 1]
    if not keys:
        return ""
    heads = "".join(f"<th>{escape(name)}</th>" for name in columns) if len(columns) > 1 else ""
    rows = []
    for key in keys:
        values = [column.get(key, "") for column in flat.values()]
        differs = ' class="differs"' if len(set(values)) > 1 else ""
        cells = "".join(f"<td>{escape(value)}</td>" for value in values)
        rows.append(f"<tr{differs}><th>{escape(key)}</th>{cells}</tr>")
    head = f"<thead><tr><th></th>{heads}</tr></thead>" if heads else ""
    return f'<div class="scroll"><table>{head}<tbody>{"".join(rows)}</tbody></table></div>'


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = _plain(value)
    return flat


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_plain, value)) or "none"
    if value is None or value == {}:
        return "none"
    return f"{value:g}" if isinstance(value, float) and value else str(value)

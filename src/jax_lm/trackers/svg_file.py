"""Charts as SVG files that stand alone: title, style and legend are inside."""

import unicodedata
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from jax_lm.trackers.svg_chart import (
    COLOURS,
    HEIGHT,
    WIDTH,
    Axis,
    Series,
    chart_body,
    tick_label,
    ticks,
    value_limits,
)

FILE_WIDTH = WIDTH + 24
"""Room for the last label of an axis, half of which lies beyond its end."""
PIXELS = 800
"""Width of the files."""
PALETTE = ("2563c9", "d1580e", "12805c", "8a3ab9", "b3261e", "0f7c8f", "946800", "c2337f")
STYLE = (
    "text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif;fill:#4b535c}"
    ".title{font-size:14px;font-weight:600}.title,.label,.name{fill:#1d2126}"
    ".end{text-anchor:end}.middle{text-anchor:middle}"
    ".axis{stroke:#646c76;fill:none}.grid{stroke:#e6e9ec;fill:none}"
    ".line,.whisker{fill:none;stroke:var(--colour);stroke-width:2;stroke-linejoin:round}"
    ".whisker{stroke-width:1.4}.dashed .line{stroke-dasharray:5 4;stroke-width:1.6}"
    "circle{fill:var(--colour)}"
    + "".join(f".c{index}{{--colour:#{colour}}}" for index, colour in enumerate(PALETTE))
)
CHARACTER, WIDE_CHARACTER = 6.6, 12.0
"""Width of a character of 12 pixels, at most, on average; and of one as Chinese is written."""
MARGIN, TITLE_HEIGHT, LEGEND_LINE, KEY = 16, 34, 20, 30
ROW, AXIS_HEIGHT, LONGEST_NAME, VALUE_WIDTH = 22, 46, 32, 62


class Bar(NamedTuple):
    """One line of an interval chart."""

    name: str
    value: float
    bounds: tuple[float, float] | None = None


class Reference(NamedTuple):
    """A value that others are held against: a line across the chart."""

    label: str
    value: float


def line_figure(title: str, series: Sequence[Series], x_label: str, y_label: str) -> str:
    """Curves as a file; at least one has points."""
    drawn = [one for one in series if one.points]
    keys = [(one.label, one.style, one.markers) for one in drawn]
    body = f'<g transform="translate(0 {TITLE_HEIGHT})">{chart_body(drawn, x_label, y_label)}</g>'
    return _file(title, body, TITLE_HEIGHT + HEIGHT, keys)


def interval_figure(
    title: str, bars: Sequence[Bar], references: Sequence[Reference], x_label: str, dot_label: str
) -> str:
    """Values with their intervals, a line each, as a file.

    Args:
        title: above the chart.
        bars: from top to bottom; at least one.
        references: lines across.
        x_label: what the values are, with their unit.
        dot_label: of the dots, in the legend.
    """
    ends = [bar.value for bar in bars] + [reference.value for reference in references]
    ends += [end for bar in bars for end in bar.bounds or ()]
    left = MARGIN + max(_width(_short(bar.name)) for bar in bars) + 8
    axis = Axis(*value_limits(ends), left, FILE_WIDTH - VALUE_WIDTH)
    bottom = TITLE_HEIGHT + ROW * len(bars) + 8
    parts = [_value_axis(axis, bottom, x_label)]
    styles = [f"c{reference_colour(index)} dashed" for index in range(len(references))]
    for style, reference in zip(styles, references, strict=True):
        x = axis.pixel(reference.value)
        parts.append(
            f'<g class="{style}"><path class="line" d="M{x:.1f} {TITLE_HEIGHT}'
            f'V{bottom}"><title>{escape(reference.label)}: {reference.value:.4f}</title></path></g>'
        )
    parts += [_bar(bar, axis, TITLE_HEIGHT + ROW * (row + 0.5)) for row, bar in enumerate(bars)]
    keys = [(dot_label, "c0", True)]
    keys += [(one.label, style, False) for one, style in zip(references, styles, strict=True)]
    return _file(title, "".join(parts), bottom + AXIS_HEIGHT, keys)


def reference_colour(index: int) -> int:
    """Of a reference: from the end of the palette, since curves take theirs from its beginning."""
    return COLOURS - 1 - index % COLOURS


def _value_axis(axis: Axis, bottom: float, label: str) -> str:
    parts = [f'<path class="axis" d="M{axis.start:.1f} {bottom}H{axis.stop:.1f}"/>']
    for value in ticks(axis.low, axis.high, 6):
        x = axis.pixel(value)
        parts.append(f'<path class="grid" d="M{x:.1f} {TITLE_HEIGHT}V{bottom}"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{bottom + 17}" class="middle">{tick_label(value)}</text>'
        )
    middle = (axis.start + axis.stop) / 2
    parts.append(
        f'<text class="middle label" x="{middle:.1f}" y="{bottom + 36}">{escape(label)}</text>'
    )
    return "".join(parts)


def _bar(bar: Bar, axis: Axis, y: float) -> str:
    x = axis.pixel(bar.value)
    whisker = ""
    if bar.bounds is not None:
        low, high = (axis.pixel(end) for end in bar.bounds)
        whisker = (
            f'<path class="whisker" d="M{low:.1f} {y - 3:.1f}v6M{low:.1f} {y:.1f}H{high:.1f}'
            f'M{high:.1f} {y - 3:.1f}v6"/>'
        )
    return (
        f'<text class="end name" x="{axis.start - 8:.1f}" y="{y + 4:.1f}">'
        f"<title>{escape(bar.name)}</title>{escape(_short(bar.name))}</text>"
        f'<g class="c0">{whisker}<circle cx="{x:.1f}" cy="{y:.1f}" r="3.6"/></g>'
        f'<text x="{axis.stop + 8:.1f}" y="{y + 4:.1f}">{bar.value:.3f}</text>'
    )


def _width(text: str) -> float:
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return CHARACTER * (len(text) - wide) + WIDE_CHARACTER * wide


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _file(title: str, body: str, height: float, keys: Sequence[tuple[str, str, bool]]) -> str:
    """The whole file; keys are label, classes and whether it has a mark."""
    legend, lines = _legend(keys, height)
    height += lines * LEGEND_LINE + 6
    longest = int((FILE_WIDTH - 2 * MARGIN) / CHARACTER / 1.15)
    shown = title if len(title) <= longest else f"{title[: longest - 1]}…"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{PIXELS}" '
        f'height="{height * PIXELS / FILE_WIDTH:.0f}" viewBox="0 0 {FILE_WIDTH} {height:.0f}" '
        f'role="img" aria-label="{escape(title)}">\n<style>{STYLE}</style>\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n'
        f'<text class="title" x="{MARGIN}" y="21"><title>{escape(title)}</title>{escape(shown)}'
        f"</text>\n{body}\n{legend}\n</svg>\n"
    )


def _legend(keys: Sequence[tuple[str, str, bool]], top: float) -> tuple[str, int]:
    """Entries side by side, on as many lines as they take."""
    parts, x, line = [], float(MARGIN), 0
    for label, style, marked in keys:
        shown = label if len(label) <= 80 else f"{label[:79]}…"
        width = KEY + _width(shown) + MARGIN
        if x > MARGIN and x + width > FILE_WIDTH:
            x, line = float(MARGIN), line + 1
        y = top + LEGEND_LINE * line + 8
        mark = f'<circle cx="{x + 11:.1f}" cy="{y:.1f}" r="3.2"/>' if marked else ""
        parts.append(
            f'<g class="{style}"><path class="line" d="M{x:.1f} {y:.1f}h22"/>{mark}</g>'
            f'<text x="{x + KEY:.1f}" y="{y + 4:.1f}">{escape(shown)}</text>'
        )
        x += width
    return "".join(parts), line + 1

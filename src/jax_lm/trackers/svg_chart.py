"""Line charts as inline SVG: axes, units, a legend and no script."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 72, 16, 14, 46
MAX_POINTS = 600
SMOOTHED_FROM = 60
"""Curves with fewer points are drawn as they are."""
LEGEND_MARK = '<circle cx="12" cy="5" r="3.2"/>'
COLOURS = 8
"""Number of colour classes (``c0`` ...) that the style sheet defines."""

Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Series:
    """One curve; its points are in the order of x and finite."""

    label: str
    points: Sequence[Point]
    colour: int
    """Index of the curve's colour class, taken modulo ``COLOURS``."""
    markers: bool = False
    """A mark at each point, for the few points of an evaluation."""
    dashed: bool | None = None
    """None: where there are markers."""
    smooth: bool = False
    """Drawn as a moving mean over a faint raw curve, where there are many points."""
    bounds: Sequence[Point] = ()
    """Low and high end of each marker's interval; empty: none is drawn."""

    @property
    def style(self) -> str:
        """Classes of the curve and of its line in a legend."""
        dashed = self.markers if self.dashed is None else self.dashed
        return f"c{self.colour % COLOURS}{' dashed' if dashed else ''}"


@dataclass(frozen=True)
class Axis:
    """Values along a line of pixels."""

    low: float
    high: float
    start: float
    """Pixel of ``low``."""
    stop: float

    def pixel(self, value: float) -> float:
        """Where a value lies."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)


@dataclass(frozen=True)
class _Frame:
    x_axis: Axis
    y_axis: Axis

    def place(self, points: Iterable[Point]) -> list[Point]:
        return [(self.x_axis.pixel(x), self.y_axis.pixel(y)) for x, y in points]


def line_chart(title: str, series: Sequence[Series], x_label: str, y_label: str) -> str:
    """A figure with the curves, or an empty string where no curve has a point."""
    drawn = [one for one in series if one.points]
    if not drawn:
        return ""
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        f"{chart_body(drawn, x_label, y_label)}</svg>{_legend(drawn)}</figure>"
    )


def chart_body(drawn: Sequence[Series], x_label: str, y_label: str) -> str:
    """Axes and curves, ``WIDTH`` by ``HEIGHT``; every curve has a point."""
    x_values = [x for one in drawn for x, _ in one.points]
    y_values = [y for one in drawn for _, y in one.points]
    y_values += [end for one in drawn for bounds in one.bounds for end in bounds]
    frame = _Frame(
        Axis(*_x_limits(x_values), LEFT, WIDTH - RIGHT),
        Axis(*value_limits(y_values), HEIGHT - BOTTOM, TOP),
    )
    curves = "".join(_curve(one, frame) for one in drawn)
    return _grid(frame) + curves + _axis_labels(x_label, y_label)


def ticks(low: float, high: float, target: int = 7) -> list[float]:
    """At most about ``target`` round numbers (1, 2 or 5 times a power of ten), low to high."""
    rough = (high - low) / target
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [index * step for index in range(first, math.floor(high / step + 1e-9) + 1)]


def tick_label(value: float) -> str:
    """A short number: ``0.001`` as ``1e-3``, ``12000`` as ``12k``."""
    if value == 0:
        return "0"
    if abs(value) < 0.01:
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    for limit, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.4g}{suffix}"
    return f"{value:.4g}"


def smoothed(points: Sequence[Point], window: int) -> list[Point]:
    """Each y replaced by the mean over ``window`` points around it (fewer at the ends)."""
    half = window // 2
    means = []
    for index, (x, _) in enumerate(points):
        near = points[max(0, index - half) : index + half + 1]
        means.append((x, sum(y for _, y in near) / len(near)))
    return means


def thinned(points: Sequence[Point], limit: int = MAX_POINTS) -> list[Point]:
    """At most about ``limit`` points: the lowest and the highest of each stretch, and the ends."""
    if len(points) <= limit:
        return list(points)
    size = math.ceil(2 * len(points) / limit)
    kept = [points[0]]
    for start in range(0, len(points), size):
        stretch = points[start : start + size]
        kept.extend({min(stretch, key=_height), max(stretch, key=_height)})
    return sorted({*kept, points[-1]})


def _height(point: Point) -> float:
    return point[1]


def _x_limits(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (0.0 if low < 0.1 * high else low, high) if high > low else (low - 1, high + 1)


def value_limits(values: Sequence[float]) -> tuple[float, float]:
    """Ends of an axis with a margin around the values; those of 0 and more stay so."""
    low, high = min(values), max(values)
    margin = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return (max(0.0, low - margin) if low >= 0 else low - margin), high + margin


def _grid(frame: _Frame) -> str:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = [f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}"/>']
    for value in ticks(frame.y_axis.low, frame.y_axis.high):
        y, text = frame.y_axis.pixel(value), tick_label(value)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" class="end">{text}</text>')
    for value in ticks(frame.x_axis.low, frame.x_axis.high, 8):
        x, text = frame.x_axis.pixel(value), tick_label(value)
        parts.append(f'<path class="axis" d="M{x:.1f} {bottom}v4"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" class="middle">{text}</text>')
    return "".join(parts)


def _curve(series: Series, frame: _Frame) -> str:
    if series.markers:
        line = _path(frame.place(series.points))
        marks = _whiskers(series, frame) + _marks(series, frame)
        return f'<g class="{series.style}">{line}{marks}</g>'
    noisy = series.smooth and len(series.points) >= SMOOTHED_FROM
    window = len(series.points) // 30 if noisy else 1
    line = _path(frame.place(thinned(smoothed(series.points, window))))
    raw = _path(frame.place(thinned(series.points)), "raw") if noisy else ""
    return f'<g class="{series.style}">{raw}{line}</g>'


def _marks(series: Series, frame: _Frame) -> str:
    return "".join(
        f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3.2"><title>{escape(series.label)}: '
        f"{y:.5g} at {tick_label(x)}</title></circle>"
        for (px, py), (x, y) in zip(frame.place(series.points), series.points, strict=True)
    )


def _whiskers(series: Series, frame: _Frame) -> str:
    parts = []
    for (x, _), (low, high) in zip(series.points, series.bounds, strict=False):
        (px, bottom), (_, top) = frame.place([(x, low), (x, high)])
        parts.append(
            f'<path class="whisker" d="M{px - 3:.1f} {bottom:.1f}h6M{px:.1f} {bottom:.1f}'
            f'V{top:.1f}M{px - 3:.1f} {top:.1f}h6"/>'
        )
    return "".join(parts)


def _path(points: Sequence[Point], kind: str = "line") -> str:
    if len(points) == 1:
        return f'<circle cx="{points[0][0]:.1f}" cy="{points[0][1]:.1f}" r="3.2"/>'
    return f'<path class="{kind}" d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in points)}"/>'


def _axis_labels(x_label: str, y_label: str) -> str:
    middle_x, middle_y = (LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2
    return (
        f'<text class="middle label" x="{middle_x}" y="{HEIGHT - 8}">{escape(x_label)}</text>'
        f'<text class="middle label" transform="translate(14 {middle_y}) rotate(-90)">'
        f"{escape(y_label)}</text>"
    )


def _legend(series: Sequence[Series]) -> str:
    if len(series) == 1:
        return ""
    entries = "".join(
        f'<li class="{one.style}">'
        '<svg class="key" viewBox="0 0 24 10" aria-hidden="true"><path class="line" d="M1 5H23"/>'
        f"{LEGEND_MARK if one.markers else ''}</svg>"
        f"{escape(one.label)}</li>"
        for one in series
    )
    return f'<ul class="legend">{entries}</ul>'

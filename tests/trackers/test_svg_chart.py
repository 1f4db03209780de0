import math
from xml.etree import ElementTree

import pytest

from jax_lm.trackers.svg_chart import (
    HEIGHT,
    WIDTH,
    Series,
    line_chart,
    smoothed,
    thinned,
    tick_label,
    ticks,
)


def chart(*series: Series) -> ElementTree.Element:
    return ElementTree.fromstring(line_chart("Loss & more", series, "step", "nats / token"))


def texts(figure: ElementTree.Element) -> list[str]:
    return ["".join(element.itertext()) for element in figure.iter()]


def test_a_chart_has_axes_units_and_a_legend() -> None:
    points = [(float(step), 8.0 - step / 100) for step in range(1, 500)]
    figure = chart(
        Series(label="first: <training>", points=points, colour=0, smooth=True),
        Series(label="held-out", points=points[::100], colour=9, markers=True),
    )
    shown = texts(figure)
    for expected in ("Loss & more", "step", "nats / token", "first: <training>", "held-out", "400"):
        assert expected in shown
    assert figure.find(".//g[@class='c1 dashed']") is not None
    assert figure.find(".//path[@class='raw']") is not None


def test_every_point_lies_inside_the_frame() -> None:
    points = [(0.0, -3.0), (5.0, 1e6), (9.0, 4.0)]
    (path,) = chart(Series(label="a", points=points, colour=0)).findall(".//g/path")
    for pair in path.attrib["d"].removeprefix("M").split("L"):
        x, y = map(float, pair.split())
        assert 0 <= x <= WIDTH
        assert 0 <= y <= HEIGHT


def test_one_point_is_a_mark() -> None:
    figure = chart(Series(label="a", points=[(3.0, 0.0)], colour=0))
    assert len(figure.findall(".//g/circle")) == 1


def test_no_points_no_chart() -> None:
    assert line_chart("Loss", [Series(label="a", points=[], colour=0)], "step", "nats") == ""


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 100, [0, 20, 40, 60, 80, 100]), (2.1, 2.6, [2.1, 2.2, 2.3, 2.4, 2.5, 2.6])],
)
def test_ticks_are_round(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("value", "label"),
    [(0, "0"), (0.001, "1e-3"), (0.00025, "2.5e-4"), (0.25, "0.25"), (12_000, "12k"), (2e9, "2G")],
)
def test_tick_labels_are_short(value: float, label: str) -> None:
    assert tick_label(value) == label


def test_thinning_keeps_spikes_and_ends() -> None:
    points = [(float(x), math.sin(x)) for x in range(10_000)]
    points[5_003] = (5_003.0, 99.0)
    kept = thinned(points)
    assert len(kept) <= 610
    assert (5_003.0, 99.0) in kept
    assert (kept[0], kept[-1]) == (points[0], points[-1])


def test_smoothing_is_a_mean_of_neighbours() -> None:
    assert smoothed([(0, 0), (1, 3), (2, 6)], 3) == [(0, 1.5), (1, 3.0), (2, 4.5)]

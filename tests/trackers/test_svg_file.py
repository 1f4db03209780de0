import re
from xml.etree import ElementTree

from jax_lm.trackers.svg_chart import Series
from jax_lm.trackers.svg_file import FILE_WIDTH, Bar, Reference, interval_figure, line_figure

SVG = "{http://www.w3.org/2000/svg}"


def parsed(picture: str) -> ElementTree.Element:
    return ElementTree.fromstring(picture)


def texts(picture: ElementTree.Element) -> list[str]:
    return ["".join(one.itertext()) for one in picture.iter(f"{SVG}text")]


def test_intervals_and_references_lie_inside_and_are_named() -> None:
    bars = [
        Bar("all", 1.25, (1.0, 1.5)),
        Bar("a & <b>", 0.7),
        Bar("a name that is much too long to stand beside a chart", 3.0, (2.0, 4.0)),
    ]
    references = [Reference("zlib -9", 2.5)]
    picture = parsed(interval_figure("Title", bars, references, "bits per byte", "value"))
    shown = " ".join(texts(picture))
    for expected in ("Title", "all", "a & <b>", "bits per byte", "zlib -9", "value", "1.250"):
        assert expected in shown
    assert any(name.endswith("…") for name in texts(picture))
    whiskers = picture.findall(f".//{SVG}path[@class='whisker']")
    assert len(whiskers) == 2
    places = [float(x) for one in whiskers for x in re.findall(r"[MH]([\d.]+)", one.attrib["d"])]
    assert all(0 < place < FILE_WIDTH for place in places)
    assert places[0] < places[2] < places[4] < places[6]  # low and high of each
    (line,) = picture.findall(f".//{SVG}g[@class='c7 dashed']/{SVG}path[@class='line']/")
    assert line.text == "zlib -9: 2.5000"


def test_curves_have_whiskers_and_the_legend_takes_the_lines_it_needs() -> None:
    many = [
        Series(
            label=f"a subset with a long name {index}",
            points=[(0.0, 1.0 + index), (10.0, 0.5)],
            colour=index,
            markers=True,
            bounds=[(0.5, 9.0), (0.4, 0.6)],
        )
        for index in range(4)
    ]
    one, four = (parsed(line_figure("Title", part, "step", "bits")) for part in (many[:1], many))
    assert int(four.attrib["height"]) > int(one.attrib["height"])
    assert len(one.findall(f".//{SVG}path[@class='whisker']")) == 2
    shown = texts(four)
    assert all(series.label in shown for series in many)
    heights = [float(text.attrib["y"]) for text in four.iter(f"{SVG}text") if "y" in text.attrib]
    assert max(heights) < float(four.attrib["viewBox"].split()[-1])


def test_a_long_title_is_cut_and_kept_whole_for_the_pointer() -> None:
    title = "word " * 60
    picture = parsed(interval_figure(title, [Bar("a", 1.0)], [], "x", "value"))
    found = picture.find(f".//{SVG}text[@class='title']")
    assert found is not None and found[0].text == title
    assert found[0].tail is not None and len(found[0].tail) < 100

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jax_lm.cli.main import main
from jax_lm.trackers.jsonl import read_metrics
from jax_lm.trackers.report import write_report

MakeRun = Callable[..., Path]


def report(*runs: Path) -> str:
    return write_report(runs, runs[0] / "report.html").read_text(encoding="utf-8")


def test_the_page_shows_the_run(run_dir: Path) -> None:
    page = report(run_dir)
    last = read_metrics(run_dir / "metrics.jsonl")[-2]["train/loss"]
    shown = ["first-run", f"{last:.4f}", f"{last!r}", "2.5000", "1.2500", "205k", "1m39s"]
    shown += ["tokens seen", "nats / token", "held-out (github)", "Gradient norm", "Throughput"]
    shown += ["model.family", "gpt2", "packages.jax", "none"]
    assert [text for text in shown if text not in page] == []


def test_samples_are_escaped_and_the_latest_comes_first(run_dir: Path) -> None:
    page = report(run_dir)
    assert "<script" not in page
    latest = page.index("&lt;script&gt;alert(100)")
    assert latest < page.index("&lt;script&gt;alert(50)")
    assert page.count("<details open>") == 1


def test_nothing_is_fetched_from_anywhere(run_dir: Path) -> None:
    page = report(run_dir)
    assert "http" not in page
    assert "@import" not in page
    assert "url(" not in page


def test_runs_are_laid_over_each_other(tmp_path: Path, make_run: MakeRun) -> None:
    first, second = make_run(tmp_path / "a" / "run"), make_run(tmp_path / "b" / "run", steps=40)
    third = make_run(tmp_path / "third", tokens=False)
    page = report(first, second, third)
    assert f"{first}: training" in page
    assert f"{second}: held-out" in page
    assert "third: training" in page
    assert ">step<" in page
    assert '<tr class="differs"><th>seed</th><td>100</td><td>40</td><td>100</td></tr>' in page
    assert "<tr><th>model.family</th>" in page
    apart = page[page.index("<h2>What differs</h2>") : page.index("<h2>Curves</h2>")]
    assert "<th>seed</th>" in apart
    assert "model.family" not in apart
    assert "What differs" not in report(first)


def test_a_short_run_without_anything_else_has_a_report(tmp_path: Path) -> None:
    run = tmp_path / "short"
    run.mkdir()
    row = {"step": 1, "train/loss": None, "_nonfinite": ["train/loss"]}
    (run / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    page = report(run)
    assert "Rows with a non-finite value" in page
    assert "<h2>Samples</h2>" not in page


def test_many_samples_are_cut_and_said(run_dir: Path) -> None:
    for step in range(200, 250):
        (run_dir / "samples" / f"step-{step:08d}.txt").write_text('--- prompt: "a"\nab\n\n')
    assert "12 earlier samples are in the run's samples folder" in report(run_dir)


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda run: (run / "metrics.jsonl").unlink(), "metrics.jsonl does not exist"),
        (lambda run: (run / "metrics.jsonl").write_text(""), "metrics.jsonl is empty"),
        (lambda run: (run / "metrics.jsonl").write_text('{"st'), "metrics.jsonl is empty"),
        (lambda run: (run / "config.json").write_text("{"), "config.json: expected JSON"),
        (lambda run: (run / "config.json").write_text("[]"), "config.json: expected a JSON object"),
    ],
)
def test_a_run_without_metrics_is_one_sentence(
    run_dir: Path, capsys: pytest.CaptureFixture[str], prepare: Any, said: str
) -> None:
    prepare(run_dir)
    assert main(["report", str(run_dir)]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (run_dir / "report.html").exists()


def test_the_verb_says_where_the_report_is(
    run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(run_dir)]) == 0
    assert capsys.readouterr().out == f"wrote {run_dir / 'report.html'}\n"
    assert main(["report", str(run_dir), "--output-path", str(tmp_path / "x" / "r.html")]) == 0
    assert (tmp_path / "x" / "r.html").is_file()


def test_a_run_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report"]) == 2
    assert "name at least one run directory" in capsys.readouterr().err


@contextmanager
def browser_page(width: int) -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("needs chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser.new_page(viewport={"width": width, "height": 900})
        browser.close()


@pytest.mark.parametrize("width", [400, 1200])
def test_a_browser_opens_it_without_complaint(run_dir: Path, width: int) -> None:
    address = write_report([run_dir], run_dir / "report.html").as_uri()
    said: list[str] = []
    requests: list[str] = []
    with browser_page(width) as page:
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        assert page.title() == "first-run · jax-lm report"
        assert page.locator("figure svg[role=img]").count() == 5
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert said == []
    assert requests == [address]

"""Draws the README's pictures anew, from a real run: ``make pictures``.

The quickstart is run where it has not been (a few minutes), and a shorter run with another learning
rate beside it. Needs chromium for what a browser shows.
"""

import json
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RUNS = Path("runs")  # from the root, where every verb is run: no picture shows a machine's paths
RUN, OTHER = RUNS / "quickstart", RUNS / "slower-learning"
FEATURES = RUNS / "quickstart-data" / "features"
BY_PACKAGE = RUNS / "by-package.jsonl"
PACKAGES = ("asyncio", "email", "http", "json", "logging", "unittest", "xml")
WIDTH = 800
PORT = 8765


def jax_lm(*words: object) -> None:
    """Run a verb."""
    subprocess.run([sys.executable, "-m", "jax_lm", *map(str, words)], check=True, cwd=ROOT)


def make_runs() -> None:
    """The quickstart and one that differs in its learning rate; both are kept between calls."""
    jax_lm("quickstart")
    if not (ROOT / OTHER / "report.html").exists():
        settings = {
            "--data.train": FEATURES / "train",
            "--data.validation": FEATURES / "held-out",
            "--optimizer.learning-rate": 5e-4,
            "--optimizer.min-learning-rate": 5e-5,
            "--evaluation.every": 400,
            "--checkpoint.every": 400,
            "--checkpoint.keep-every": 400,
            "--run-dir": OTHER,
        }
        jax_lm("train", "quickstart", *(word for pair in settings.items() for word in pair))


def write_by_package() -> None:
    """The standard library's packages as subsets."""
    library = Path(json.__file__).parents[1]
    with (ROOT / BY_PACKAGE).open("w", encoding="utf-8") as file:
        for package in PACKAGES:
            for path in sorted((library / package).rglob("*.py")):
                text = path.read_text(encoding="utf-8")
                if text.strip():
                    file.write(json.dumps({"text": text, "package": package}) + "\n")


@contextmanager
def browser(width: int, height: int = 900) -> Iterator[Page]:
    """A page of Chromium's, twice as fine as a screen's."""
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        size = {"width": width, "height": height}
        yield chromium.new_page(viewport=size, device_scale_factor=2)
        chromium.close()


def draw_report() -> None:
    """Two runs over each other: the head of the report and its first curves."""
    jax_lm("report", RUN, OTHER, "--output", RUNS / "both.html")
    with browser(WIDTH) as page:
        page.goto((ROOT / RUNS / "both.html").as_uri())
        chart = page.locator("figure").first.bounding_box()
        assert chart is not None
        size = {"x": 0, "y": 0, "width": WIDTH, "height": chart["y"] + chart["height"] + 20}
        page.screenshot(path=HERE / "report.png", full_page=True, clip=size)


def draw_evaluations() -> None:
    """Bits per byte by package, and over a run's checkpoints."""
    spec = f"{BY_PACKAGE}?subset=package"
    jax_lm("evaluate", RUN, spec, "--plot", HERE / "evaluate.svg")
    held_out = ("stdlib?split=validation", "--all-checkpoints", "--max-documents", 20)
    jax_lm("evaluate", OTHER, *held_out, "--plot", HERE / "checkpoints.svg")


def draw_chat_page() -> None:
    """The server's page after an answer."""
    words = [sys.executable, "-m", "jax_lm", "serve", str(RUN), "--port", str(PORT)]
    server = subprocess.Popen(words, cwd=ROOT)
    try:
        wait_for(f"http://127.0.0.1:{PORT}/healthz")
        with browser(WIDTH, 620) as page:
            page.goto(f"http://127.0.0.1:{PORT}/")
            page.get_by_role("textbox").first.fill("def read_lines(path):")
            page.keyboard.press("Enter")
            page.wait_for_timeout(15_000)
            page.screenshot(path=HERE / "chat-page.png")
    finally:
        server.terminate()
        server.wait()


def wait_for(url: str, seconds: float = 120.0) -> None:
    """Until a server answers."""
    end = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.3)


if __name__ == "__main__":
    make_runs()
    write_by_package()
    draw_report()
    draw_evaluations()
    draw_chat_page()

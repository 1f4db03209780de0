"""The chat page in a browser: a question typed, the answer seen as it comes, and stopped."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.serving.conftest import SAYS, Running, Serve

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
FLAGS += ["--disable-background-networking"]


@contextmanager
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("needs chromium")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        yield opened
        opened.close()


def watched(opened: Any, server: Running, width: int, **settings: Any) -> tuple[Any, list[str]]:
    page = opened.new_page(viewport={"width": width, "height": 800}, **settings)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on(
        "request",
        lambda request: None if request.url.startswith(server.url) else said.append(request.url),
    )
    page.goto(server.url)
    return page, said


def until(page: Any, happens: Callable[[], Any]) -> None:
    """Wait here: the page's own policy forbids Playwright to wait in it."""
    for _ in range(500):
        if happens():
            return
        page.wait_for_timeout(20)
    raise AssertionError(f"it did not happen; the page says {page.inner_text('#notice')!r}")


def answer_of(page: Any, number: int) -> str:
    text: str = page.locator("article.assistant .text").nth(number).inner_text()
    return text


def test_a_question_is_answered_and_stopped(serve: Serve, scripted: Any) -> None:
    slow = serve(scripted(pace=0.02, context_length=5000))
    with browser() as opened:
        page, said = watched(opened, slow, 400)
        until(page, lambda: page.title() == "tiny · jax-lm")
        page.keyboard.type("How are you?")  # the field has the focus from the start
        page.keyboard.press("Enter")
        page.wait_for_selector("article.assistant")
        until(page, lambda: len(answer_of(page, 0)) > 9)
        early = answer_of(page, 0)
        until(page, lambda: len(answer_of(page, 0)) > len(early) + 9)
        assert page.locator("#send").is_hidden()
        page.click("#stop")
        page.wait_for_selector("#send:not([hidden])")
        assert slow.becomes("jax_lm_slots_busy", 0)
        first = answer_of(page, 0)
        assert (SAYS * 9).startswith(first)
        assert page.locator("article.assistant .note").inner_text() == "stopped"
        # What was said is remembered; line breaks, the settings and the keyboard's stop.
        page.click("#show-settings")
        page.fill("#system", "Be brief.")
        page.fill("#temperature", "0")
        page.locator("#question").press_sequentially("Go")
        page.keyboard.press("Shift+Enter")
        page.keyboard.type("on")
        page.keyboard.press("Enter")
        until(page, lambda: page.locator("article.assistant").count() == 2 and answer_of(page, 1))
        page.keyboard.press("Escape")
        page.wait_for_selector("#send:not([hidden])")
        request = slow.decoder.admitted[-1]
        prompt = slow.served.tokenizer.decode(request.prompt)
        assert prompt.startswith("System: Be brief.\nUser: How are you?\nAssistant: one two")
        assert prompt.endswith("\nUser: Go\non\nAssistant: ")
        assert request.sampling.temperature == 0
        page.keyboard.press("ArrowUp")
        assert page.input_value("#question") == "Go\non"
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        page.click("#new")
        assert page.locator("article").count() == 0
        assert said == []


@pytest.mark.slow
def test_what_goes_wrong_is_said(serve: Serve, scripted: Any) -> None:
    server = serve(scripted(num_slots=1, context_length=60), token="s3cret")
    with browser() as opened:
        page, said = watched(opened, server, 1200, color_scheme="dark")
        until(page, lambda: "wants a token" in page.inner_text("#notice"))
        assert page.locator("#settings").is_visible()
        page.fill("#token", "s3cret")
        page.keyboard.press("Tab")
        until(page, lambda: page.title() == "tiny · jax-lm")
        page.fill("#question", "x" * 500)
        page.click("#send")
        until(page, lambda: "fit" in page.text_content("#notice"))
        assert page.input_value("#question") == "x" * 500
        assert page.locator("article").count() == 0
        page.fill("#question", "hi")
        page.keyboard.press("Enter")
        page.wait_for_selector("article.assistant .note:not(:empty)")
        assert page.locator("#notice").inner_text() == ""
        note = page.locator("article.assistant .note").inner_text()
        assert note.startswith("cut off: no room for more · ")
        assert all("Failed to load resource" in line for line in said)  # 401 and 400


@pytest.mark.slow
@pytest.mark.parametrize("width", [400, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_cut_off_or_too_faint(server: Running, width: int, scheme: str) -> None:
    with browser() as opened:
        page, _ = watched(opened, server, width, color_scheme=scheme)
        page.click("#show-settings")
        page.fill("#question", "word " * 8)
        page.keyboard.press("Enter")
        page.wait_for_selector("article.assistant .note:not(:empty)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for name in ("#new", "#show-settings", "#send", "#question", "#seed"):
            box = page.locator(name).bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
            assert box["height"] >= 24
        unnamed = page.evaluate(
            "[...document.querySelectorAll('input,textarea')].filter(e => !e.labels.length).length"
        )
        assert unnamed == 0

"""How far the shards are: a bar on a terminal, plain periodic lines otherwise."""

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm

from jax_lm.preprocessing.partial import Say

TERMINAL_SECONDS = 0.5
PLAIN_SECONDS = 10.0


class _Watch:
    """Sees finished shards by their result files, whichever process wrote them."""

    def __init__(self, folder: Path, total: int) -> None:
        self.folder = folder
        self.total = total
        self.started = time.time()
        self.megabytes: dict[str, float] = {}

    def look(self) -> None:
        for path in self.folder.glob("shard-*.json"):
            new = path.name not in self.megabytes and not path.name.endswith(".error.json")
            if new and path.stat().st_mtime >= self.started - 1:
                content = json.loads(path.read_text(encoding="utf-8"))
                self.megabytes[path.name] = content["text_bytes"] / 1e6

    def line(self) -> str:
        done, read = len(self.megabytes), sum(self.megabytes.values())
        seconds = max(time.time() - self.started, 1e-6)
        left = f", about {seconds / done * (self.total - done):.0f} s left" if done else ""
        speed = f"{read:.1f} MB of text, {read / seconds:.1f} MB/s"
        return f"{done} of {self.total} shards, {speed}{left}"


@contextmanager
def shown_progress(folder: Path, total: int, say: Say) -> Iterator[None]:
    """Show progress while the body runs; quiet if it ends before the first line is due."""
    stop = threading.Event()
    watch = _Watch(folder, total)
    show = _bar if sys.stderr.isatty() else _lines
    thread = threading.Thread(target=show, args=(watch, stop, say), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _lines(watch: _Watch, stop: threading.Event, say: Say) -> None:
    while not stop.wait(PLAIN_SECONDS):
        watch.look()
        say(watch.line())


def _bar(watch: _Watch, stop: threading.Event, say: Say) -> None:
    with tqdm(total=watch.total, unit="shard", leave=False) as bar:
        while not stop.wait(TERMINAL_SECONDS):
            watch.look()
            bar.set_postfix_str(watch.line().split(", ", 1)[1], refresh=False)
            bar.update(len(watch.megabytes) - bar.n)

"""Generated texts, one readable file a step."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from jax_lm.trackers.base import Histogram

HEADER = re.compile(r'^--- prompt: (".*")\n', re.MULTILINE)


class Sample(NamedTuple):
    """A prompt and how the model went on, as read back from a file."""

    step: int
    prompt: str
    text: str
    """Prompt and continuation together."""


class SamplesTracker:
    """Writes ``samples/step-00001000.txt``: under a line with the prompt, the whole text."""

    def __init__(self, directory: Path, *, resume_step: int | None = None) -> None:
        """Write into ``directory``; on resume, samples past ``resume_step`` are removed."""
        self._directory = directory
        self._step: int | None = None
        self._written = ""
        if resume_step is not None:
            for path in _files(directory):
                if _step_of(path) > resume_step:
                    path.unlink()

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Numbers have files of their own."""

    def sample(self, step: int, prompt: str, text: str) -> None:
        """Add a text to its step's file; ``text`` may or may not begin with the prompt."""
        whole = whole_text(prompt, text)
        header = f"--- prompt: {json.dumps(prompt, ensure_ascii=False)}\n"
        before = self._written if step == self._step else ""
        self._step, self._written = step, f"{before}{header}{whole}\n\n"
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / f"step-{step:08d}.txt"
        temporary = path.with_name(f"_{path.name}.tmp")
        temporary.write_text(self._written, encoding="utf-8", errors="replace", newline="")
        temporary.replace(path)

    def histogram(self, step: int, values: Mapping[str, Histogram]) -> None:
        """Distributions are left to others."""

    def close(self) -> None:
        """Nothing is held open."""


def whole_text(prompt: str, text: str) -> str:
    """Prompt and continuation, whether or not ``text`` already begins with the prompt."""
    return text if text.startswith(prompt) else prompt + text


def read_samples(directory: Path) -> list[Sample]:
    """Every sample in a folder, in the order of steps; none where there is no folder."""
    samples = []
    for path in _files(directory):
        parts = HEADER.split(path.read_bytes().decode(errors="replace"))
        for header, body in zip(parts[1::2], parts[2::2], strict=True):
            text = body.removesuffix("\n\n")
            samples.append(Sample(_step_of(path), _prompt(header), text))
    return samples


def _prompt(header: str) -> str:
    try:
        return str(json.loads(header))
    except ValueError:  # the model wrote a line that looks like a header
        return ""


def _files(directory: Path) -> list[Path]:
    return sorted(directory.glob("step-" + "[0-9]" * 8 + ".txt"))


def _step_of(path: Path) -> int:
    return int(path.stem.removeprefix("step-"))

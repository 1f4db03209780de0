"""TensorBoard event files, written without TensorFlow."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jax_lm.trackers.base import Histogram
from jax_lm.trackers.samples import whole_text

FLUSH_SECONDS = 10


class TensorboardTracker:
    """Scalars and histograms under their own names, samples as text."""

    def __init__(self, directory: Path, *, resume_step: int | None = None) -> None:
        """Write into ``directory``; TensorBoard then hides what lies past ``resume_step``."""
        with _without_torch():
            from tensorboardX import SummaryWriter

        purge = {} if resume_step is None else {"purge_step": resume_step + 1}
        self._writer: Any = SummaryWriter(
            logdir=str(directory),
            flush_secs=FLUSH_SECONDS,
            # The name holds seconds only: a run resumed at once would overwrite the file.
            filename_suffix=f".from-{resume_step or 0}",
            **purge,
        )

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add a point to each metric's curve."""
        if self._writer is not None:
            for name, value in metrics.items():
                self._writer.add_scalar(name, float(value), step)

    def sample(self, step: int, prompt: str, text: str) -> None:
        """Add a text under its prompt, as preformatted Markdown."""
        if self._writer is not None:
            whole = whole_text(prompt, text)
            indented = "\n".join(f"    {line}" for line in whole.splitlines())
            tag = f"samples/{prompt.strip()[:40] or 'unprompted'}"
            self._writer.add_text(_encodable(tag), _encodable(indented), step)

    def histogram(self, step: int, values: Mapping[str, Histogram]) -> None:
        """Add each distribution to its parameter's."""
        if self._writer is not None:
            for name, (counts, edges) in values.items():
                middles = (edges[1:] + edges[:-1]) / 2
                self._writer.add_histogram_raw(
                    name,
                    min=float(edges[0]),
                    max=float(edges[-1]),
                    num=int(counts.sum()),
                    sum=float(counts @ middles),
                    sum_squares=float(counts @ middles**2),
                    bucket_limits=edges[1:].tolist(),
                    bucket_counts=counts.tolist(),
                    global_step=step,
                )

    def close(self) -> None:
        """Flush and close the event file."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None


def _encodable(text: str) -> str:
    return text.encode(errors="replace").decode()


@contextmanager
def _without_torch() -> Iterator[None]:
    """TensorboardX imports torch where that is installed, which no event file needs."""
    absent = "torch" not in sys.modules
    if absent:
        sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if absent:
            del sys.modules["torch"]

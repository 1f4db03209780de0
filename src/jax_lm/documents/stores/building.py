"""Any source -> a store, in steps that each count wholly or not at all.

A step is a run of documents whose end depends on the documents alone. A writer keeps it together
with the cursor after it, so a build that was killed goes on where its last whole step ended, and
takes the same steps as one that was not.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from jax_lm.documents.base import Cursor, DocumentSource, RejectedRecord
from jax_lm.documents.stores.counts import Counts, Progress
from jax_lm.errors import StoppedByUser
from jax_lm.types import Document

START = Cursor(0, 0)

STEP_BYTES = 8 << 20
STEP_DOCUMENTS = 8192

Say = Callable[[str], None]
Plan = Mapping[str, Any]
"""What decides the bytes of a store: its format, the source's fingerprint and the settings."""
PLAN_WORDS = {"format": "another version of the format", "source": "another source"}


@dataclass
class Step:
    """Documents that are written together."""

    documents: list[Document] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    """UTF-8 bytes of each document's text."""
    rejected: list[RejectedRecord] = field(default_factory=list)
    """Malformed records that were skipped on the way."""
    counts: Counts = field(default_factory=Counts)
    cursor: Cursor = START
    """After the last document."""
    is_last: bool = False
    """The source is at its end."""


class StoreWriter(Protocol):
    """Where a build puts its documents."""

    def begin(self) -> Progress:
        """What an earlier run of the same plan left, or the beginning."""
        ...

    def room(self) -> int:
        """How many documents the next step may hold."""
        ...

    def encode(self, step: Step) -> Sequence[Any]:
        """The documents as they will be stored; counts their bytes in ``step.counts``."""
        ...

    def write(self, step: Step, encoded: Sequence[Any], progress: Progress) -> None:
        """Add a step and the progress after it, wholly or not at all.

        Args:
            step: what to add.
            encoded: what ``encode`` gave for it.
            progress: after the step.
        """
        ...

    def finish(self, progress: Progress) -> None:
        """Give the store its name; there is nothing more to add."""
        ...

    def close(self) -> None:
        """Let go of files and connections, whether the build is finished or not."""
        ...


def build(
    source: DocumentSource, writer: StoreWriter, watch: Callable[[Progress], None]
) -> Progress:
    """Write the documents of a source that are not written yet.

    Args:
        source: read from where the writer stopped.
        writer: keeps the documents.
        watch: is shown the progress before the first step and after each.
    """
    try:
        progress = writer.begin()
        watch(progress)
        if not progress.complete:
            progress = _fill(source, writer, progress, watch)
        writer.finish(progress)
    except KeyboardInterrupt as error:
        raise StoppedByUser(
            "stopped; give the same command again, and the build goes on"
        ) from error
    finally:
        writer.close()
    return progress


def plan_differences(old: Plan, new: Plan) -> list[str]:
    """What differs between two plans, in words; an empty list if nothing does."""
    found = []
    for key in dict.fromkeys([*old, *new]):
        if old.get(key) != new.get(key):
            values = f"{key} was {old.get(key)}, is {new.get(key)}"
            found.append(PLAN_WORDS.get(key, values))
    return found


def _fill(
    source: DocumentSource,
    writer: StoreWriter,
    progress: Progress,
    watch: Callable[[Progress], None],
) -> Progress:
    source.rejects.clear()
    source.dropped.clear()
    for step in _steps(source, progress.cursor, writer.room):
        progress = _write(writer, step, progress)
        watch(progress)
    return progress


def _steps(source: DocumentSource, start: Cursor, room: Callable[[], int]) -> Iterator[Step]:
    """The steps; the last may be empty, but for what was left out after the last document."""
    step = Step(cursor=start)
    most = min(STEP_DOCUMENTS, room())
    for cursor, document in source.read(start):
        step.documents.append(document)
        step.sizes.append(step.counts.add(document))
        step.cursor = cursor
        if len(step.documents) >= most or step.counts.num_bytes >= STEP_BYTES:
            _take_left_out(source, step)
            yield step
            step = Step(cursor=cursor)
            most = min(STEP_DOCUMENTS, room())
    _take_left_out(source, step)
    step.is_last = True
    yield step


def _take_left_out(source: DocumentSource, step: Step) -> None:
    """Move what the source skipped and dropped so far into the step."""
    step.rejected.extend(source.rejects)
    step.counts.rejected += len(source.rejects)
    step.counts.dropped += Counter(source.dropped)
    source.rejects.clear()
    source.dropped.clear()


def _write(writer: StoreWriter, step: Step, progress: Progress) -> Progress:
    """Write a step; gives the progress after it."""
    encoded = writer.encode(step)
    counts = Counts()
    counts.merge(progress.counts)
    counts.merge(step.counts)
    progress = Progress(step.cursor, counts, step.is_last)
    writer.write(step, encoded, progress)
    return progress

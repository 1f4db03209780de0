"""A random sample of documents, or all of them, as text files.

Which documents are drawn depends on the seed and on how many there are, so a source that has to be
read from its beginning gives the same sample as a store of the same documents. It is read twice,
once to count; only the numbers of the drawn documents are held.
"""

import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from jax_lm.documents.base import Cursor, DocumentSource
from jax_lm.documents.stores.partial_files import rejected_path, remove, write_rejected
from jax_lm.documents.stores.random_access import is_store
from jax_lm.errors import JaxLMError, UsageError
from jax_lm.types import Document, Segment

START = Cursor(0, 0)
READ_AT_ONCE = 256
ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r"})
SUFFIXES = {"lines": ".txt", "jsonl": ".jsonl"}


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Which documents are written, and how."""

    sample: int | None = None
    """Draw so many documents at random; default: all."""
    seed: int = 0
    """Decides the sample."""
    files: int = 1
    """Spread the documents over so many files, in order."""
    format: Literal["lines", "jsonl"] = "lines"
    """lines: one document a line of .txt files; line breaks inside it, and backslashes, become
    escapes. jsonl: one JSON record a line, which keeps weights, subset and metadata too."""
    overwrite: bool = False
    """Replace an earlier export in the same directory."""

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        for name in ("sample", "files"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"--{name} is {value}, expected 1 or more")


@dataclass
class Exported:
    """What an export wrote."""

    documents: int = 0
    of: int = 0
    """Documents there were."""
    escaped: int = 0
    """Documents in which line breaks or backslashes were written as escapes."""
    left_out: Counter[str] = field(default_factory=Counter)
    """What the source skipped and dropped, by reason."""


def export(source: DocumentSource, output: Path, options: ExportOptions) -> Exported:
    """Write documents into a directory that appears whole or not at all.

    Raises:
        JaxLMError: the directory holds something else, or the source no document.
    """
    _refuse_others(output, options.overwrite)
    total, left_out = _count(source)
    numbers = _drawn(total, options)
    if not numbers:
        raise JaxLMError(f"{source.name}: no document in it, so there is nothing to export")
    partial = output.with_name(f"_{output.name}.partial")
    remove(partial)
    partial.mkdir(parents=True)
    rejects = list(source.rejects)
    try:
        escaped = _write(_documents(source, numbers), len(numbers), partial, options)
        remove(output)
        partial.replace(output)
        if rejects:
            write_rejected(rejected_path(output), rejects)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return Exported(len(numbers), total, escaped, left_out)


def file_names(options: ExportOptions) -> list[str]:
    """Names of the files of an export."""
    suffix, count = SUFFIXES[options.format], options.files
    return [f"documents-{index:05d}-of-{count:05d}{suffix}" for index in range(count)]


def _count(source: DocumentSource) -> tuple[int, Counter[str]]:
    """How many documents there are, and what was left out on the way."""
    if is_store(source):
        return len(source), Counter()
    source.rejects.clear()
    source.dropped.clear()
    count = sum(1 for _ in source.read(START))
    left_out = Counter(source.dropped)
    if source.rejects:
        left_out["malformed"] += len(source.rejects)
    return count, left_out


def _drawn(total: int, options: ExportOptions) -> Sequence[int]:
    """Numbers of the documents to write, ascending."""
    if options.sample is None or options.sample >= total:
        return range(total)
    return sorted(random.Random(options.seed).sample(range(total), options.sample))


def _documents(source: DocumentSource, numbers: Sequence[int]) -> Iterator[Document]:
    if is_store(source):
        for begin in range(0, len(numbers), READ_AT_ONCE):
            yield from source.read_batch(numbers[begin : begin + READ_AT_ONCE])
        return
    wanted = iter(numbers)
    following = next(wanted, None)
    for number, (_, document) in enumerate(source.read(START)):
        if number == following:
            yield document
            following = next(wanted, None)


def _write(documents: Iterator[Document], count: int, folder: Path, options: ExportOptions) -> int:
    """Fill the files one after another; gives how many documents needed escapes."""
    escaped = 0
    names = file_names(options)
    for index, name in enumerate(names):
        first, last = (count * edge // len(names) for edge in (index, index + 1))
        with ExitStack() as stack:
            path = folder / name
            file = stack.enter_context(path.open("w", encoding="utf-8", newline="\n"))
            for _ in range(first, last):
                line, changed = _line(next(documents), options.format)
                escaped += changed
                file.write(line)
    return escaped


def _line(document: Document, style: str) -> tuple[str, bool]:
    if style == "jsonl":
        return json.dumps(_record(document), ensure_ascii=False, default=str) + "\n", False
    text = document.text
    escaped = text.translate(ESCAPES)
    return escaped + "\n", escaped != text


def _record(document: Document) -> dict[str, Any]:
    plain = document.segments == (Segment(document.text),)
    pairs = [[segment.text, segment.weight] for segment in document.segments]
    record: dict[str, Any] = {"text": document.text if plain else pairs}
    if document.subset:
        record["meta"] = {"pile_set_name": document.subset}
    return {**document.metadata, **record}


def _refuse_others(output: Path, overwrite: bool) -> None:
    """An export replaces an empty directory or an earlier export, and nothing else."""
    if not output.exists():
        return
    if not output.is_dir():
        raise JaxLMError(f"{output}: a file; expected a directory for --output")
    names = [path.name for path in output.iterdir()]
    if others := [name for name in names if not name.startswith("documents-")]:
        raise JaxLMError(
            f"{output}: holds {min(others)}, which is no export; choose another --output"
        )
    if names and not overwrite:
        raise JaxLMError(
            f"{output}: holds an export already; --overwrite replaces it, or choose another "
            "--output"
        )

"""SPEC -> a source of documents."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from jax_lm.documents.base import DocumentSource
from jax_lm.documents.files import FileReader, FileSource, OnBadRecord, SourceFile
from jax_lm.documents.finding import FoundFile, find_files
from jax_lm.documents.jsonl import JsonlReader
from jax_lm.documents.limited import LimitedSource
from jax_lm.documents.reading import ReadingOptions
from jax_lm.documents.specs import STDLIB, Spec, parse_spec
from jax_lm.documents.stdlib import SPLITS, stdlib_files
from jax_lm.documents.text import LineReader, TextReader
from jax_lm.errors import JaxLMError, UsageError, nearest

EVERYTHING = ReadingOptions()
ReaderFactory = Callable[[Spec, bool], FileReader]


def _text_reader(spec: Spec, lines: bool) -> FileReader:
    return LineReader() if lines else TextReader()


def _jsonl_reader(spec: Spec, lines: bool) -> FileReader:
    return JsonlReader(text=spec.options.get("text"), subset=spec.options.get("subset"))


READERS: dict[str, ReaderFactory] = {".txt": _text_reader, ".jsonl": _jsonl_reader}


def open_source(
    spec: str | os.PathLike[str] | Sequence[str] | DocumentSource,
    options: ReadingOptions = EVERYTHING,
) -> DocumentSource:
    """Open the documents that one or several SPECs name, read one after another.

    Args:
        spec: ``stdlib``, a path, a glob or a directory, each with ``?text=FIELD`` and the like
            after it; or an open source, which then keeps its own settings.
        options: how files are read, and which documents are kept.

    Raises:
        JaxLMError: nothing is there, or nothing that can be read.
        UsageError: an option is unknown or has nothing to act on.
    """
    if isinstance(spec, str | os.PathLike):
        spec = [os.fspath(spec)]
    source = (
        _open_files(spec, options.lines, options.on_bad_record)
        if isinstance(spec, Sequence)
        else spec
    )
    limit = options.max_documents
    return source if limit is None else LimitedSource(source, limit)


def _open_files(written: Sequence[str], lines: bool, on_bad_record: OnBadRecord) -> FileSource:
    if not written:
        raise UsageError("no SPEC given; write stdlib, a path, a glob or a directory")
    files: list[SourceFile] = []
    passed_over: list[str] = []
    for spec in map(parse_spec, written):
        read, others = _files_of(spec, lines)
        files.extend(read)
        passed_over.extend(others)
    if lines and not any(isinstance(file.reader, LineReader) for file in files):
        raise UsageError(f"--lines reads .txt files line by line; {' '.join(written)} has none")
    return FileSource(" ".join(written), tuple(_distinct(files)), on_bad_record, tuple(passed_over))


def _files_of(spec: Spec, lines: bool) -> tuple[list[SourceFile], list[str]]:
    """The files a SPEC names with their readers, and those it passes over."""
    if spec.place == STDLIB:
        reader = _text_reader(spec, lines)
        return [SourceFile(*found, reader) for found in stdlib_files(_split(spec))], []
    found = find_files(spec.place)
    read = [(path, name) for path, name in found if path.suffix.lower() in READERS]
    others = [path for path, _ in found if path.suffix.lower() not in READERS]
    _refuse_others(spec, read, others)
    files = [
        SourceFile(path, name, READERS[path.suffix.lower()](spec, lines)) for path, name in read
    ]
    if spec.options and not any(isinstance(file.reader, JsonlReader) for file in files):
        option = next(iter(spec.options))
        raise UsageError(f"{spec.written}: ?{option}= names a field of .jsonl records; none here")
    return files, [str(path) for path in others]


def _refuse_others(spec: Spec, read: list[FoundFile], others: list[Path]) -> None:
    """A directory may hold other files beside the corpus; a file named directly must be read."""
    readable = " and ".join(READERS)
    if not read and not others:
        raise JaxLMError(f"{spec.place}: an empty directory; expected {readable} files")
    if others and (not read or not Path(spec.place).is_dir()):
        kind = f"a {others[0].suffix} file" if others[0].suffix else "a file without a suffix"
        raise JaxLMError(f"{others[0]}: {kind} cannot be read; this version reads {readable}")


def _split(spec: Spec) -> str | None:
    split = spec.options.get("split")
    if split not in (None, *SPLITS):
        expected = " or ".join(SPLITS)
        raise UsageError(
            f"{spec.written}: no split {split!r}{nearest(split, SPLITS)} (expected {expected})"
        )
    return split


def _distinct(files: list[SourceFile]) -> list[SourceFile]:
    """Name files by their whole path where their short names collide."""
    if len({file.name for file in files}) == len(files):
        return files
    return [file._replace(name=file.path.as_posix()) for file in files]

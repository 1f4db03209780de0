"""SPECs of files -> one source, with the format that each file's suffix asks for."""

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from jax_lm.documents.files.finding import find_files
from jax_lm.documents.files.formats import (
    READABLE,
    FormatOptions,
    feature_sets,
    formats_of_option,
    is_part_of_corpus,
    make_format,
    suffix_of,
)
from jax_lm.documents.files.locations import protocol_of
from jax_lm.documents.files.remote import find_remote
from jax_lm.documents.files.source import FileSource, SourceFile
from jax_lm.documents.files.stored import DataFile, LocalFile, StoredFile
from jax_lm.documents.files.text import LineFormat
from jax_lm.documents.reading import ReadingOptions
from jax_lm.documents.record_fields import RecordFields
from jax_lm.documents.specs import Spec
from jax_lm.documents.stdlib import SPLITS, stdlib_files
from jax_lm.errors import JaxLMError, UsageError, nearest

Found = tuple[StoredFile, str]
"""A file, and its name within the corpus."""


def open_files(specs: Sequence[Spec], options: ReadingOptions) -> FileSource:
    """The files of several SPECs as one source.

    Raises:
        JaxLMError: nothing is there, or nothing that can be read.
        UsageError: an option has nothing to act on.
    """
    files: list[SourceFile] = []
    passed_over: list[str] = []
    for spec in specs:
        read, others = _files_of(spec, options)
        files.extend(read)
        passed_over.extend(others)
    name = " ".join(spec.shown for spec in specs)
    if options.lines and not any(isinstance(file.format, LineFormat) for file in files):
        raise UsageError(f"--lines reads .txt files line by line; {name} has none")
    return FileSource(name, tuple(_distinct(files)), options.on_bad_record, tuple(passed_over))


def _files_of(spec: Spec, options: ReadingOptions) -> tuple[list[SourceFile], list[str]]:
    """The files a SPEC names with their formats, and those it passes over."""
    if spec.kind == "stdlib":
        form = make_format(".txt", FormatOptions(RecordFields(), options.lines, {}))
        found = stdlib_files(_split(spec))
        return [SourceFile(DataFile(LocalFile(path), name), form) for path, name in found], []
    places, is_directory = _find(spec)
    read, others = _readable(spec, places, is_directory)
    _refuse_idle_options(spec, read)
    formats = FormatOptions(RecordFields.of(spec.options, options), options.lines, spec.options)
    files = []
    for stored, name in read:
        suffix = suffix_of(name)
        form = make_format(suffix.format, formats)
        files.append(SourceFile(DataFile(stored, name, suffix.compression), form))
    return files, [stored.shown for stored, _ in others]


def _find(spec: Spec) -> tuple[list[Found], bool]:
    """What the SPEC names, and whether that is a directory."""
    if protocol_of(spec.place) is None:
        found = [(LocalFile(path), name) for path, name in find_files(spec.place)]
        return list(found), Path(spec.place).expanduser().is_dir()
    remote = find_remote(spec.place)
    return list(remote.files), remote.is_directory


def _readable(
    spec: Spec, found: list[Found], is_directory: bool
) -> tuple[list[Found], list[Found]]:
    """A directory may hold other files beside the corpus; a file named directly must be read."""
    if not found:
        raise JaxLMError(f"{spec.shown}: an empty directory; expected {READABLE} files")
    sets = feature_sets(name for _, name in found) if is_directory else frozenset()
    read: list[Found] = []
    others: list[Found] = []
    for stored, name in found:
        is_read = is_part_of_corpus(name, sets) if is_directory else suffix_of(name).format
        (read if is_read else others).append((stored, name))
    if others and (not read or not is_directory):
        _refuse(spec, others)
    return read, others


def _refuse(spec: Spec, others: list[Found]) -> NoReturn:
    for stored, name in others:
        if not suffix_of(name).format:
            kind = f"a {_suffixes(name)} file" if _suffixes(name) else "a file without a suffix"
            raise JaxLMError(f"{stored.shown}: {kind} cannot be read; expected {READABLE}")
    raise JaxLMError(
        f"{spec.shown}: no corpus, only files such as {others[0][0].shown} that lie beside one; "
        "a file that is named itself is read"
    )


def _suffixes(name: str) -> str:
    path = Path(name)
    is_packed = suffix_of(name).compression is not None
    return "".join(path.suffixes[-2:]) if is_packed else path.suffix


def _refuse_idle_options(spec: Spec, read: list[Found]) -> None:
    formats = {suffix_of(name).format for _, name in read}
    for option in spec.options:
        wanted = formats_of_option(option)
        if formats.isdisjoint(wanted):
            raise UsageError(
                f"{spec.shown}: ?{option}= is about {', '.join(wanted)} files; none here"
            )


def _split(spec: Spec) -> str | None:
    split = spec.options.get("split")
    if split not in (None, *SPLITS):
        expected = " or ".join(SPLITS)
        raise UsageError(
            f"{spec.shown}: no split {split!r}{nearest(split, SPLITS)} (expected {expected})"
        )
    return split


def _distinct(files: list[SourceFile]) -> list[SourceFile]:
    """Name files by their whole path where their short names collide."""
    if len({file.file.name for file in files}) == len(files):
        return files
    return [
        SourceFile(DataFile(file.stored, Path(file.shown).as_posix(), file.compression), form)
        if isinstance(file.stored, LocalFile)
        else SourceFile(DataFile(file.stored, file.shown, file.compression), form)
        for file, form in files
    ]

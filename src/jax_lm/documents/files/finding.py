"""The files that a path, a directory or a glob names."""

import glob
import os
from collections.abc import Iterator
from pathlib import Path

from jax_lm.errors import JaxLMError

FoundFile = tuple[Path, str]
"""A path as the user would write it, and its name within the corpus."""


def find_files(place: str) -> list[FoundFile]:
    """Every file a place names, in the order of the names; hidden files only if named directly.

    Raises:
        JaxLMError: nothing is there.
    """
    path = Path(place).expanduser()
    place = str(path)
    if path.is_dir():
        return _in_order(_walk(path, path))
    if path.exists():
        return [(_regular(path), path.name)]
    if not glob.has_magic(place):
        raise JaxLMError(f"{place}: no such file or directory")
    return _in_order(_matches(place))


def _matches(pattern: str) -> Iterator[FoundFile]:
    root = _fixed_part(pattern)
    # Path.glob takes no absolute pattern and would match hidden files.
    found = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207
    written = Path(pattern).relative_to(root).as_posix()
    matched = [file for file in _files(found, root) if not lies_apart(file[1], written)]
    if not matched:
        raise JaxLMError(f"{pattern}: no file matches (options are written ?text=FIELD)")
    for match, name in matched:
        yield _regular(match), name


def lies_apart(name: str, pattern: str = "") -> bool:
    """Whether a file lies in a directory that belongs to a program, as those beside our outputs.

    Args:
        name: the file's path within the corpus.
        pattern: the glob that matched it; one that writes a ``_`` or ``.`` itself means it.
    """
    if any(map(_is_apart, pattern.split("/"))):
        return False
    return any(map(_is_apart, name.split("/")[:-1]))


def _is_apart(part: str) -> bool:
    return part.startswith(("_", ".")) and part not in (".", "..")


def _files(matches: list[str], root: Path) -> Iterator[FoundFile]:
    for match in map(Path, matches):
        if match.is_dir():
            yield from _walk(match, root)
        else:
            yield match, match.relative_to(root).as_posix()


def _fixed_part(pattern: str) -> Path:
    parts = Path(pattern).parts
    is_fixed = [not glob.has_magic(part) for part in parts]
    return Path(*parts[: is_fixed.index(False)])


def _walk(directory: Path, root: Path) -> Iterator[FoundFile]:
    """Files below a directory; links are followed, but never in circles."""
    visited: set[str] = set()
    for parent, names, files in os.walk(directory, followlinks=True):
        names[:] = [name for name in names if not name.startswith(".")]
        real = os.path.realpath(parent)
        if real in visited:
            names.clear()
            continue
        visited.add(real)
        for name in files:
            path = Path(parent, name)
            if not name.startswith("."):
                yield path, path.relative_to(root).as_posix()


def _regular(path: Path) -> Path:
    if not path.is_file():
        raise JaxLMError(f"{path}: not a regular file; a source is read more than once")
    return path


def _in_order(found: Iterator[FoundFile]) -> list[FoundFile]:
    unique = {path: name for path, name in found}
    return sorted(unique.items(), key=lambda item: item[1])

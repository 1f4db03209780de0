"""Files that appear whole or not at all."""

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside ``path``; sync and rename it to ``path`` on success."""
    temporary = path.with_name(f".tmp-{secrets.token_hex(4)}-{path.name}")
    try:
        yield temporary
        sync(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a whole UTF-8 file atomically; lone surrogates become escapes, as JSON has them."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def sync(path: Path) -> None:
    """Flush a file or a directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_sha256(path: Path) -> str:
    """Hex sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

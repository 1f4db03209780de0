"""One SQLite file of a store: its tables, its header, and the checksum over all its bytes.

``documents(id, size, body)`` holds the documents 0, 1, 2 ... of the file: the UTF-8 bytes of the
text, and the document compressed with zstd (whose frames carry a checksum of their own).
``marks(id, start)`` says how many bytes of text come before some of the documents, ``rejected``
keeps the malformed records that were skipped, ``meta(key, value)`` everything else as JSON.

A finished file is sealed: SQLite's ``user_version`` (https://www.sqlite.org/fileformat2.html, the
four bytes at offset 60, free for applications) holds the CRC-32 of the file with these four zero.
"""

import json
import os
import sqlite3
import struct
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from jax_lm.errors import JaxLMError, missing_extra

FORMAT_VERSION = 1
APPLICATION_ID = int.from_bytes(b"jxlm", "big")
PAGE_BYTES = 8192
HEADER_BYTES = 100
SQLITE_MAGIC = b"SQLite format 3\0"
SEAL_OFFSET = 60
BLOCK = 1 << 20
SCHEMA = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    "CREATE TABLE documents (id INTEGER PRIMARY KEY, size INTEGER NOT NULL, body BLOB NOT NULL)",
    "CREATE TABLE marks (id INTEGER PRIMARY KEY, start INTEGER NOT NULL)",
    "CREATE TABLE rejected "
    "(id INTEGER PRIMARY KEY, file TEXT, line INTEGER, reason TEXT, raw TEXT)",
)


def check_zstandard() -> None:
    """Make sure that documents can be compressed and read.

    Raises:
        JaxLMError: the package for it is not installed.
    """
    try:
        import zstandard  # noqa: F401
    except ModuleNotFoundError as error:
        raise missing_extra("zstandard", "zstd", "an SQLite store of documents") from error


class Header(NamedTuple):
    """What the first bytes of a file say."""

    num_bytes: int
    """Length that the file should have."""
    seal: int
    """CRC-32 of a finished file."""


def read_header(path: Path) -> Header:
    """The header of a store's file.

    Raises:
        JaxLMError: it is no such file, or not as long as it should be.
    """
    with path.open("rb") as file:
        head = file.read(HEADER_BYTES)
        actual = os.fstat(file.fileno()).st_size
    if len(head) < HEADER_BYTES or not head.startswith(SQLITE_MAGIC):
        raise JaxLMError(f"{path}: not an SQLite file; expected one from jax-lm documents build")
    page_bytes, pages, seal, application = struct.unpack(">16xH10xI28xI4xI28x", head)
    if application != APPLICATION_ID:
        raise JaxLMError(
            f"{path}: an SQLite file of another program; expected one from jax-lm documents build"
        )
    expected = pages * (65536 if page_bytes == 1 else page_bytes)
    if actual != expected:
        raise JaxLMError(
            f"{path}: damaged, {actual:,} bytes long where its header says {expected:,}; build it "
            "again or take another copy"
        )
    return Header(expected, seal)


def computed_seal(path: Path) -> int:
    """CRC-32 of the file with the four bytes that hold it taken as zero."""
    with path.open("rb") as file:
        first = bytearray(file.read(HEADER_BYTES))
        first[SEAL_OFFSET : SEAL_OFFSET + 4] = bytes(4)
        checksum = zlib.crc32(first)
        while block := file.read(BLOCK):
            checksum = zlib.crc32(block, checksum)
    return checksum


def seal(path: Path) -> None:
    """Write the checksum of a closed file into it; doing so twice changes nothing."""
    checksum = computed_seal(path)
    with path.open("r+b") as file:
        file.seek(SEAL_OFFSET)
        file.write(checksum.to_bytes(4, "big"))
        file.flush()
        os.fsync(file.fileno())


def connect_to_build(path: Path) -> sqlite3.Connection:
    """A connection that writes; transactions begin and end where the caller says so."""
    return sqlite3.connect(path, isolation_level=None)


def prepare_pages(connection: sqlite3.Connection) -> None:
    """Decide how long the pages of a new file are; before its first transaction."""
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")


def connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection that takes no lock and never writes, not even a journal."""
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA cache_size = -4096")
    return connection


def create_tables(connection: sqlite3.Connection) -> None:
    """The empty tables of a new file, within the caller's transaction."""
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    for statement in SCHEMA:
        connection.execute(statement)


def read_meta(connection: sqlite3.Connection, key: str) -> Any:
    """The value under a key of ``meta``, None where there is none."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    if row is None or isinstance(row[0], bytes):
        return row and row[0]
    return json.loads(row[0])


def write_meta(connection: sqlite3.Connection, key: str, value: Any) -> None:
    """Set a key of ``meta``; bytes stay bytes, the rest becomes JSON."""
    stored = value if isinstance(value, bytes) else json.dumps(value)
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, stored))

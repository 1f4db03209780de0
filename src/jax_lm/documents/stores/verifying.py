"""Every byte of a store against its checksums."""

from collections.abc import Iterator
from pathlib import Path

from jax_lm.documents.stores.connections import OpenFile
from jax_lm.documents.stores.mongodb import MongoStore, open_mongodb
from jax_lm.documents.stores.mongodb_indices import every_problem, unusable
from jax_lm.documents.stores.sqlite import StoreFile, read_store_file, store_paths
from jax_lm.documents.stores.sqlite_file import computed_seal
from jax_lm.errors import JaxLMError, UsageError

SQLITE, MONGODB = "sqlite:", "mongodb"
SUFFIX = ".db"
SHOWN = 3


def verify_store(spec: str) -> str:
    """Check a store and say what was checked.

    Raises:
        JaxLMError: something is damaged; file and documents are named.
        UsageError: the SPEC names no store.
    """
    if spec.startswith(MONGODB):
        return _verify_mongodb(open_mongodb(spec))
    if not spec.startswith(SQLITE) and not spec.endswith(SUFFIX):
        raise UsageError(f"{spec}: not a store; expected sqlite:PATH or mongodb://...")
    paths = store_paths(spec.removeprefix(SQLITE))
    problems: list[str] = []
    documents = 0
    for path in paths:
        found = list(_problems(path))
        problems.extend(found)
        documents += 0 if found else read_store_file(path).counts.documents
    if problems:
        raise JaxLMError("; ".join(problems))
    files = "1 file" if len(paths) == 1 else f"{len(paths):,} files"
    return f"{files}, {documents:,} documents verified"


def _verify_mongodb(store: MongoStore) -> str:
    for part in store.parts:
        if problems := every_problem(store.server, part.name, part.length):
            raise unusable(store.server, part.name, problems, part.length)
    collections = "1 collection" if len(store.parts) == 1 else f"{len(store.parts):,} collections"
    return f"{collections}, {len(store):,} documents: idx counts from 0 without gap or duplicate"


def _problems(path: Path) -> Iterator[str]:
    try:
        file = read_store_file(path)
        damaged = _damaged(file)
    except JaxLMError as error:
        yield str(error)
        return
    if damaged:
        more = f" and {len(damaged) - SHOWN:,} more" if len(damaged) > SHOWN else ""
        yield f"{path}: damaged: {', '.join(damaged[:SHOWN])}{more}; build it again or take a copy"
    elif computed_seal(path) != file.header.seal:
        yield (
            f"{path}: damaged: its bytes do not match its checksum, though every document can be "
            "read; build it again or take a copy"
        )


def _damaged(file: StoreFile) -> list[str]:
    """Which documents cannot be read as they were written, in words."""
    opened = OpenFile(file.path, file.header)
    try:
        return list(_in_one_pass(opened, file.counts.documents))
    except JaxLMError as error:  # the tree of pages is broken: which documents hang on it?
        numbers = range(file.counts.documents)
        found = [words for number in numbers if (words := _unreachable(opened, number))]
        return found or [str(error)]
    finally:
        opened.close()


def _in_one_pass(opened: OpenFile, documents: int) -> Iterator[str]:
    expected = 0
    for number, body in opened.each_row("SELECT id, body FROM documents ORDER BY id"):
        if number != expected:
            yield f"document {expected} is missing"
        if not _can_read(opened, number, body):
            yield f"document {number} does not match its checksum"
        expected = number + 1
    if expected != documents:
        yield f"{documents:,} documents expected, the last found is {expected - 1}"


def _unreachable(opened: OpenFile, number: int) -> str:
    try:
        rows = opened.rows("SELECT body FROM documents WHERE id = ?", (number,))
    except JaxLMError:
        return f"document {number} cannot be reached"
    if not rows:
        return f"document {number} is missing"
    fine = _can_read(opened, number, rows[0][0])
    return "" if fine else f"document {number} does not match its checksum"


def _can_read(opened: OpenFile, number: int, body: bytes) -> bool:
    try:
        opened.document(number, body)
    except JaxLMError:
        return False
    return True

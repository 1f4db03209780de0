"""Every byte of a feature set, checked against its manifest."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from jax_lm.errors import JaxLMError
from jax_lm.files.atomic import file_sha256
from jax_lm.preprocessing.features import row_groups, schema_of
from jax_lm.preprocessing.manifest import (
    FileEntry,
    Manifest,
    feature_files,
    is_intact,
    manifest_path,
    read_manifest,
    rejected_path,
    tokenizer_directory,
)
from jax_lm.preprocessing.row_checks import table_counts, table_problem
from jax_lm.tokenizers.pretrained import load_tokenizer


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What a check of a set found."""

    files: int
    rows: int
    problems: tuple[str, ...]
    """One line for each thing that is wrong, beginning with the file's name."""


def verify_features(prefix: str) -> Verification:
    """Check every file's sha256, schema and rows, the manifest and what lies beside it.

    Raises:
        JaxLMError: the manifest is missing or cannot be read.
    """
    manifest = read_manifest(prefix)
    path = manifest_path(prefix)
    if is_intact(path.read_bytes().decode("utf-8", "replace")):
        problems = tuple(_set_problems(prefix, manifest))
    else:
        problems = (f"{path.name}: its sha256 is not the one that it ends with",)
    return Verification(files=len(manifest.files), rows=manifest.totals.rows, problems=problems)


def _set_problems(prefix: str, manifest: Manifest) -> Iterator[str]:
    parent = Path(prefix).parent
    found = {path.name for path in feature_files(prefix)}
    counts: Counter[str] = Counter()
    whole = True
    for entry in manifest.files:
        problem = "missing"
        if entry.name in found:
            problem = _file_problem(parent / entry.name, entry, manifest, counts)
        if problem:
            whole = False
            yield f"{entry.name}: {problem}"
    for name in sorted(found - {entry.name for entry in manifest.files}):
        yield f"{name}: not in the manifest"
    if whole:
        yield from _count_problems(prefix, manifest, counts)
    yield from _problems_beside(prefix, manifest)


def _file_problem(path: Path, entry: FileEntry, manifest: Manifest, counts: Counter[str]) -> str:
    if file_sha256(path) != entry.sha256:
        return "its sha256 is not the manifest's"
    try:
        if not pq.read_schema(path).equals(schema_of(manifest.columns)):
            return f"its columns are not {', '.join(manifest.columns)}"
        return _rows_problem(path, entry, manifest, counts)
    except (JaxLMError, pa.ArrowException, ValueError, OSError) as error:
        return f"it cannot be read ({error})"


def _rows_problem(path: Path, entry: FileEntry, manifest: Manifest, counts: Counter[str]) -> str:
    here: Counter[str] = Counter()
    for table in row_groups(path):
        if problem := table_problem(table, manifest):
            first = here["rows"]
            return f"{problem} among rows {first} to {first + len(table) - 1}"
        here.update(table_counts(table, manifest))
    if here["rows"] != entry.rows:
        return f"{here['rows']} rows, expected {entry.rows}"
    if here["num_bytes"] != entry.num_bytes:
        return f"rows spell {here['num_bytes']} bytes, expected {entry.num_bytes}"
    counts.update(here)
    return ""


def _count_problems(prefix: str, manifest: Manifest, counts: Mapping[str, int]) -> Iterator[str]:
    for name, count in counts.items():
        expected = getattr(manifest.totals, name)
        if count != expected:
            yield f"{manifest_path(prefix).name}: {name} {expected}, but the files hold {count}"


def _problems_beside(prefix: str, manifest: Manifest) -> Iterator[str]:
    folder = tokenizer_directory(prefix)
    try:
        tokenizer = load_tokenizer(folder)
        if tokenizer.fingerprint() != manifest.tokenizer_fingerprint:
            yield f"{folder.name}: not the tokenizer that cut the rows"
        elif (tokenizer.bos_id, tokenizer.eos_id) != (
            manifest.special_ids.bos,
            manifest.special_ids.eos,
        ):
            yield f"{folder.name}: another BOS or EOS than the rows have"
    except JaxLMError as error:
        yield f"{folder.name}: {error}"
    path, expected = rejected_path(prefix), manifest.totals.rejected
    found = path.read_bytes().count(b"\n") if path.is_file() else 0
    if found != expected:
        yield f"{path.name}: {found} rejected records, expected {expected}"

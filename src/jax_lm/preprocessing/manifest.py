"""The manifest of a feature set, and the names of everything that lies beside it.

The manifest is written last: its presence is what makes a set complete.
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jax_lm.errors import JaxLMError

FORMAT_VERSION = 2
OWN_SHA256 = "manifest_sha256"
"""Key of the sha256 of the manifest's text, taken with an empty string in its place."""


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """One Parquet file of the set."""

    name: str
    rows: int
    tokens: int
    num_bytes: int
    documents: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class SpecialIds:
    """Ids with a meaning of their own."""

    bos: int | None
    eos: int | None
    pad: int
    """What padded positions hold: the tokenizer's pad id, else EOS, else 0."""
    separator: int | None
    """What stands between documents: ``--separator-token``, else EOS, else the only special id."""
    all: tuple[int, ...]
    """Every id that spells no text."""


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Sums over the set."""

    rows: int
    tokens: int
    """Ids, each counted once, separators included."""
    targets: int
    """Targets with a weight above 0."""
    padding: int
    """Positions that hold no token."""
    num_bytes: int
    """UTF-8 bytes the scored targets spell."""
    text_bytes: int
    """UTF-8 bytes of the documents."""
    spelled_bytes: int
    """UTF-8 bytes that the documents' tokens spell."""
    documents: int
    rejected: int
    """Records that could not be read and were skipped."""
    cut_off: int
    """Tokens of the documents that no row holds."""


@dataclass(frozen=True, kw_only=True)
class SubsetTotals:
    """What of the set belongs to one subset."""

    documents: int
    tokens: int
    """Ids of its documents, without separators."""
    text_bytes: int
    """UTF-8 bytes that those ids stand for."""
    rows: int


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything that is promised about a feature set."""

    format_version: int = FORMAT_VERSION
    mode: str
    sequence_length: int
    """T: how many targets a row offers, or tokens to draw them from."""
    row_length: int
    """Width of ``input_ids``: T + 1 where targets are the plain shift, else T."""
    target_row_length: int | None = None
    """Width of ``target_ids``, in mode pairs."""
    columns: Mapping[str, str]
    """Type of each column."""
    target_kind: str
    """``shift``, ``labels`` or ``weights``; ``pairs`` where outputs are kept apart; ``drawn`` where
    the objective draws them when rows are read."""
    tokenizer_fingerprint: str
    vocab_size: int
    special_ids: SpecialIds
    source: str
    """What the user named, without secrets."""
    source_fingerprint: str
    settings: Mapping[str, Any]
    files: tuple[FileEntry, ...]
    totals: Totals
    subsets: Mapping[str, SubsetTotals]
    """By name, in order of appearance."""
    dropped: Mapping[str, int]
    """How many documents (or windows) gave no row, by reason."""
    engine: str
    """What encoded the text, and its version; the ids do not depend on it."""


def checked_prefix(prefix: str) -> str:
    """Refuse a PREFIX that cannot name files on this machine.

    Raises:
        JaxLMError: it is remote, a directory, or its last part is not a plain name.
    """
    if "://" in prefix:
        raise JaxLMError(f"{prefix}: feature files are written to a local path, not to a URL")
    if prefix.endswith("/") or not Path(prefix).name:
        raise JaxLMError(f"{prefix!r} is a directory: give a prefix, such as {prefix}train")
    if Path(prefix).name.startswith(("_", ".")):
        raise JaxLMError(f"{prefix}: the last part of a prefix must not begin with '_' or '.'")
    return prefix


def beside(prefix: str, kind: str) -> Path:
    """Path of ``_NAME.KIND`` beside the files of a set."""
    path = Path(prefix)
    return path.parent / f"_{path.name}.{kind}"


def manifest_path(prefix: str) -> Path:
    """Where the manifest of a set lies."""
    return beside(prefix, "manifest.json")


def tokenizer_directory(prefix: str) -> Path:
    """Where the tokenizer that cut the set is kept."""
    return beside(prefix, "tokenizer")


def rejected_path(prefix: str) -> Path:
    """Where skipped records are kept, if there are any."""
    return beside(prefix, "rejected.jsonl")


def file_name(prefix: str, index: int, count: int) -> str:
    """Name of Parquet file ``index`` of ``count``."""
    return f"{Path(prefix).name}-{index:05d}-of-{count:05d}.parquet"


def feature_files(prefix: str) -> list[Path]:
    """The Parquet files that lie under a prefix, sorted; they may or may not be a whole set."""
    path = Path(prefix)
    pattern = re.compile(re.escape(path.name) + r"-\d{5,}-of-\d{5,}\.parquet")
    if not path.parent.is_dir():
        return []
    return sorted(found for found in path.parent.iterdir() if pattern.fullmatch(found.name))


def encode_manifest(manifest: Manifest) -> str:
    """A manifest as JSON text, which ends with its own checksum."""
    content = {**dataclasses.asdict(manifest), OWN_SHA256: ""}
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    return text.replace(_own_line(""), _own_line(_sha256(text)))


def is_intact(text: str) -> bool:
    """Whether the text of a manifest is the very text that was written."""
    found = re.search(rf'"{OWN_SHA256}": "([0-9a-f]+)"', text)
    return found is not None and found[1] == _sha256(text.replace(found[0], _own_line("")))


def _own_line(digest: str) -> str:
    return f'"{OWN_SHA256}": "{digest}"'


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def read_manifest(prefix: str) -> Manifest:
    """Read the manifest of a set.

    Raises:
        JaxLMError: it is missing, broken, or of a version that is not known here.
    """
    path = manifest_path(prefix)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise JaxLMError(
            f"no features at {prefix}: run jax-lm preprocess ... --output {prefix}"
        ) from None
    except ValueError as error:
        raise _broken(path, str(error)) from None
    version = content.get("format_version") if isinstance(content, dict) else None
    if version != FORMAT_VERSION:
        raise JaxLMError(
            f"{path}: format version {version}, expected {FORMAT_VERSION}: preprocess again "
            "or use the version of jax-lm that wrote it"
        )
    return _decode(path, content)


def _decode(path: Path, content: dict[str, Any]) -> Manifest:
    try:
        content.pop(OWN_SHA256, None)
        special = SpecialIds(**content.pop("special_ids"))
        return Manifest(
            **{
                **content,
                "special_ids": dataclasses.replace(special, all=tuple(special.all)),
                "files": tuple(FileEntry(**entry) for entry in content["files"]),
                "totals": Totals(**content["totals"]),
                "subsets": {
                    name: SubsetTotals(**totals) for name, totals in content["subsets"].items()
                },
            }
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise _broken(path, str(error)) from None


def _broken(path: Path, reason: str) -> JaxLMError:
    return JaxLMError(f"{path}: broken manifest ({reason}): preprocess again with --overwrite")

"""Suffix of a file -> how it is unpacked and read."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from jax_lm.documents.files.compression import COMPRESSIONS, Compression
from jax_lm.documents.files.csv_file import CsvFormat
from jax_lm.documents.files.finding import lies_apart
from jax_lm.documents.files.json_file import JsonFormat
from jax_lm.documents.files.jsonl import JsonlFormat
from jax_lm.documents.files.source import FileFormat
from jax_lm.documents.files.table_formats import open_arrow, open_parquet
from jax_lm.documents.files.tables import TableFormat
from jax_lm.documents.files.text import LineFormat, TextFormat
from jax_lm.documents.files.token_ids import END_OF_TEXT, TokenFormat
from jax_lm.documents.record_fields import RecordFields
from jax_lm.errors import UsageError

RECORD_SUFFIXES = (".jsonl", ".json", ".csv", ".parquet", ".arrow")
PACKED_THEMSELVES = (".parquet", ".arrow")
SUFFIXES = (".txt", *RECORD_SUFFIXES, ".bin")
READABLE = f"{', '.join(SUFFIXES)}, all but the last three also {', '.join(COMPRESSIONS)}"
NOT_A_CORPUS = re.compile(r"[._].*|dataset_infos?\.json|dataset_dict\.json|state\.json|.*\.bin")
"""What a directory may hold beside its corpus: our own manifests and rejects, what ``datasets``
writes about its files, and ``.bin`` files, most of which are no token ids; named, they are read."""
FEATURES = re.compile(r"(.+)-\d{5,}-of-\d{5,}\.parquet")
FEATURES_BESIDE = re.compile(r"(.*/|)_([^/]+)\.(?:manifest\.json$|partial/)")
"""What ``preprocess`` keeps beside the rows of a set; the rows themselves have no mark."""
TOKEN_TYPES = ("uint16", "uint32")


class Suffix(NamedTuple):
    """What a file's name says about it."""

    format: str
    """Empty: nothing that is known."""
    compression: Compression | None


def suffix_of(name: str) -> Suffix:
    """The format and compression that a file's name ends in, in any case."""
    path = PurePosixPath(name)
    last = path.suffix.lower()
    for compression in COMPRESSIONS:
        if last == compression:
            inner = PurePosixPath(path.stem).suffix.lower()
            readable = inner in SUFFIXES and inner not in (*PACKED_THEMSELVES, ".bin")
            return Suffix(inner if readable else "", compression)
    return Suffix(last if last in SUFFIXES else "", None)


def is_part_of_corpus(name: str, features: frozenset[str] = frozenset()) -> bool:
    """Whether a file that was found in a directory, and not named, is read.

    Args:
        name: its path within the directory.
        features: the ``feature_sets`` there.
    """
    path = PurePosixPath(name)
    if suffix_of(name).format == "" or NOT_A_CORPUS.fullmatch(path.name):
        return False
    rows = FEATURES.fullmatch(path.name)
    is_feature = rows is not None and str(path.with_name(rows[1])) in features
    return not is_feature and not lies_apart(name)


def feature_sets(names: Iterable[str]) -> frozenset[str]:
    """Prefixes of the feature sets among files, whether finished or begun."""
    return frozenset(
        f"{found[1]}{found[2]}" for name in names if (found := FEATURES_BESIDE.match(name))
    )


class FormatOptions(NamedTuple):
    """What the user wrote about the files: ``?`` options and flags."""

    fields: RecordFields
    lines: bool
    written: dict[str, str]
    """The ``?`` options."""


def make_format(suffix: str, options: FormatOptions) -> FileFormat[Any]:
    """The format of a suffix.

    Raises:
        UsageError: an option's value cannot be used.
    """
    if suffix == ".txt":
        return LineFormat() if options.lines else TextFormat()
    if suffix == ".bin":
        return _token_format(options.written)
    return _record_formats(options)[suffix]


def _record_formats(options: FormatOptions) -> dict[str, FileFormat[Any]]:
    fields = options.fields
    return {
        ".jsonl": JsonlFormat(fields),
        ".json": JsonFormat(fields, options.written.get("records")),
        ".csv": CsvFormat(fields),
        ".parquet": TableFormat(fields, open_parquet),
        ".arrow": TableFormat(fields, open_arrow),
    }


def formats_of_option(option: str) -> tuple[str, ...]:
    """The suffixes that an option is about."""
    return {"records": (".json",), "dtype": (".bin",), "separator": (".bin",)}.get(
        option, RECORD_SUFFIXES
    )


def _token_format(written: dict[str, str]) -> TokenFormat:
    dtype, separator = written.get("dtype", "uint16"), written.get("separator", str(END_OF_TEXT))
    if not separator.isdecimal():
        raise UsageError(f"?separator={separator} is no token id, such as {END_OF_TEXT}")
    if dtype == "uint16":
        return TokenFormat("uint16", int(separator))
    if dtype == "uint32":
        return TokenFormat("uint32", int(separator))
    raise UsageError(f"?dtype={dtype} is not known; expected {' or '.join(TOKEN_TYPES)}")

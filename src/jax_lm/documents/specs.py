"""What a user writes to name a source: a place, and options after a question mark."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl

from jax_lm.errors import JaxLMError, UsageError, nearest

STDLIB = "stdlib"
FILE_OPTIONS = ("text", "subset")
STDLIB_OPTIONS = ("split",)
WITH_OPTIONS = re.compile(r"(?P<place>.+?)\?(?P<options>[\w.-]+=.*)")
ELSEWHERE = re.compile(r"(sqlite|hf-dataset|mongodb-config|[A-Za-z][\w+.-]*(?=://)):")


class Spec(NamedTuple):
    """A parsed SPEC."""

    written: str
    place: str
    options: dict[str, str]


def parse_spec(written: str) -> Spec:
    """Take a SPEC apart.

    Raises:
        UsageError: an option is unknown, given twice or empty.
        JaxLMError: the place is not on this machine.
    """
    if not written:
        raise UsageError("an empty SPEC; write stdlib, a path, a glob or a directory")
    if Path(written).exists():
        return Spec(written, written, {})
    _refuse_elsewhere(written)
    match = WITH_OPTIONS.fullmatch(written)
    if match is None:
        return Spec(written, written, {})
    known = STDLIB_OPTIONS if match["place"] == STDLIB else FILE_OPTIONS
    return Spec(written, match["place"], _options(match["options"], written, known))


def _options(query: str, written: str, known: Sequence[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in known:
            expected = " and ".join(f"?{name}=" for name in known)
            raise UsageError(
                f"{written}: unknown option {key!r}{nearest(key, known)} (this source takes "
                f"{expected})"
            )
        if not value or key in options:
            raise UsageError(f"{written}: option {key!r} needs one value, as in ?{key}=NAME")
        options[key] = value
    return options


def _refuse_elsewhere(written: str) -> None:
    """Refuse other places by their scheme alone: the rest may hold a password."""
    match = ELSEWHERE.match(written)
    if match is not None:
        raise JaxLMError(
            f"{match[1]}: sources are not read by this version; copy the documents to "
            "local .txt or .jsonl files and name those"
        )

"""What a user writes to name a source: a place, and options after a question mark."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl, urlencode

from jax_lm.documents.files.locations import WEB, protocol_of, without_secrets
from jax_lm.errors import UsageError, nearest

STDLIB = "stdlib"
Kind = Literal["stdlib", "files", "hf-dataset", "sqlite", "mongodb"]
SCHEMES: dict[str, Kind] = {
    "hf-dataset:": "hf-dataset",
    "sqlite:": "sqlite",
    "mongodb://": "mongodb",
    "mongodb+srv://": "mongodb",
    "mongodb-config:": "mongodb",
}
OPTIONS: dict[Kind, tuple[str, ...]] = {
    "stdlib": ("split",),
    "files": ("text", "subset", "records", "dtype", "separator"),
    "hf-dataset": ("split", "streaming", "text", "subset"),
}
WITH_OPTIONS = re.compile(r"(?P<place>.+?)\?(?P<options>[\w.-]+=.*)")


class Spec(NamedTuple):
    """A parsed SPEC."""

    written: str
    """As the user wrote it: it may hold a password, so no one is shown it."""
    shown: str
    """As errors and reports name it."""
    kind: Kind
    place: str
    """What is left without the scheme of its kind and the options."""
    options: dict[str, str]


def parse_spec(written: str) -> Spec:
    """Take a SPEC apart; one of MongoDB is left whole, for its options are the driver's.

    Raises:
        UsageError: an option is unknown, given twice or empty.
    """
    if not written:
        raise UsageError(
            "an empty SPEC; write stdlib, a path, a glob, a directory, a URL, hf-dataset:NAME, "
            "sqlite:PATH or mongodb://..."
        )
    kind, place = _kind_of(written)
    if kind == "mongodb":
        return Spec(written, _scheme_alone(written), kind, written, {})
    shown = without_secrets(written) if protocol_of(place) in WEB else _without_user(written)
    if kind == "files" and protocol_of(place) is None and Path(place).exists():
        return Spec(written, shown, kind, place, {})
    match = WITH_OPTIONS.fullmatch(place)
    if match is None:
        return Spec(written, shown, kind, place, {})
    place, query = match["place"], match["options"]
    if place == STDLIB:
        kind = "stdlib"
    if protocol_of(place) in WEB:
        place, query = _own_options(place, query)
    return Spec(written, shown, kind, place, _options(query, shown, OPTIONS.get(kind)))


def _kind_of(written: str) -> tuple[Kind, str]:
    if written == STDLIB:
        return "stdlib", written
    if not Path(written).exists():
        for scheme, kind in SCHEMES.items():
            if written.startswith(scheme):
                return kind, written.removeprefix(scheme)
    return "files", written.removeprefix("file://")


def _scheme_alone(written: str) -> str:
    """Of a database address nothing else is safe to show before its own module has read it."""
    return written.split(":", 1)[0] + ":..."


def _without_user(written: str) -> str:
    return re.sub(r"(?<=://)[^/\s@]*@", "", written)


def _own_options(place: str, query: str) -> tuple[str, str]:
    """Options of ours apart from those that belong to a web address."""
    pairs = parse_qsl(query, keep_blank_values=True)
    own = [pair for pair in pairs if pair[0] in OPTIONS["files"]]
    others = [pair for pair in pairs if pair not in own]
    return (f"{place}?{urlencode(others)}" if others else place), urlencode(own)


def _options(query: str, shown: str, known: Sequence[str] | None) -> dict[str, str]:
    """Options by name; ``known`` None: whoever reads the place knows its own."""
    options: dict[str, str] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if known is not None and key not in known:
            expected = ", ".join(f"?{name}=" for name in known)
            raise UsageError(
                f"{shown}: unknown option {key!r}{nearest(key, known)} (this source takes "
                f"{expected})"
            )
        if not value or key in options:
            raise UsageError(f"{shown}: option {key!r} needs one value, as in ?{key}=NAME")
        options[key] = value
    return options

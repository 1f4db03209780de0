"""``mongodb://...`` and ``mongodb-config:FILE``: where the collections are; secrets stay inside."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

from jax_lm.errors import JaxLMError, UsageError, nearest

CONFIG_SCHEME = "mongodb-config:"
OWN_OPTIONS = ("collections", "text", "subset")
CONFIG_KEYS = ("MONGO_CONNECTION_STRING", "MONGO_CONNECTION_DB", "COLLECTIONS")
EXPECTED = "mongodb://[USER:PASSWORD@]HOST[:PORT]/DATABASE?collections=a,b"
URI = re.compile(
    r"(?P<scheme>mongodb(?:\+srv)?)://(?:(?P<login>[^/?]*)@)?(?P<hosts>[^/?@]+)"
    r"(?:/(?P<database>[^?/@]*))?(?:\?(?P<options>.*))?"
)
HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.%-]+)(:\d+)?")


@dataclass(frozen=True, kw_only=True)
class MongoAddress:
    """Collections of a database, and which field of a record is its text."""

    uri: str = field(repr=False)
    """What pymongo is given; may hold a password."""
    name: str
    """What the user wrote, without secrets."""
    place: str
    """Server and database, without secrets."""
    database: str
    collections: tuple[str, ...]
    """In the order the user named them; none: those that ``meta_info`` lists."""
    text: str | None
    """Dotted path of the text, None for the fields that are known by name."""
    subset: str | None
    """Dotted path of the subset's name, None for what the record says, else the collection."""

    def without_secrets(self, message: str) -> str:
        """A message of pymongo's, with the password taken out should it be in there."""
        match = URI.fullmatch(self.uri)
        password = (match["login"] or "").partition(":")[2] if match else ""
        for secret in (password, unquote(password)):
            message = message.replace(secret, "***") if secret else message
        return message


def parse_address(written: str) -> MongoAddress:
    """Take a SPEC apart.

    Raises:
        UsageError: it is not as expected; a password in it is not repeated.
        JaxLMError: the configuration file cannot be read.
    """
    if written.startswith(CONFIG_SCHEME):
        return _from_config(written)
    parts = _parts(written, "the SPEC")
    if not parts["database"]:
        raise UsageError(f"mongodb: the SPEC names no database; expected {EXPECTED}")
    own, others = _split_options(parts["options"] or "")
    place = f"{parts['scheme']}://{parts['hosts']}/{parts['database']}"
    shown = "&".join(f"{key}={value}" for key, value in own.items())
    return MongoAddress(
        uri=written.partition("?")[0] + (f"?{others}" if others else ""),
        name=f"{place}?{shown}" if shown else place,
        place=place,
        database=unquote(parts["database"]),
        collections=_names(own.get("collections")),
        text=own.get("text"),
        subset=own.get("subset"),
    )


def _from_config(written: str) -> MongoAddress:
    """dsGPT2's JSON: MONGO_CONNECTION_STRING, MONGO_CONNECTION_DB, COLLECTIONS."""
    path, _, query = written.removeprefix(CONFIG_SCHEME).partition("?")
    own, others = _split_options(query)
    if others:
        key = others.partition("=")[0]
        raise UsageError(
            f"{CONFIG_SCHEME}{path}: unknown option {key!r}{nearest(key, OWN_OPTIONS)}; options of "
            "pymongo belong into MONGO_CONNECTION_STRING"
        )
    config = _read_config(Path(path))
    uri, database = config["MONGO_CONNECTION_STRING"], config["MONGO_CONNECTION_DB"]
    parts = _parts(uri, f"{path}: MONGO_CONNECTION_STRING")
    return MongoAddress(
        uri=uri,
        name=written,
        place=f"{parts['scheme']}://{parts['hosts']}/{database}",
        database=database,
        collections=_names(own.get("collections")) or tuple(config.get("COLLECTIONS") or ()),
        text=own.get("text"),
        subset=own.get("subset"),
    )


def _read_config(path: Path) -> Mapping[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise JaxLMError(f"{CONFIG_SCHEME}{path}: no such file") from error
    except ValueError as error:
        raise JaxLMError(f"{path}: not a JSON file ({error})") from error
    if not isinstance(config, dict):
        raise JaxLMError(f"{path}: expected a JSON object with {' and '.join(CONFIG_KEYS)}")
    for key in CONFIG_KEYS[:2]:
        if not isinstance(config.get(key), str) or not config[key]:
            raise JaxLMError(f"{path}: expected text under {key!r}{nearest(key, config)}")
    names = config.get("COLLECTIONS") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise JaxLMError(f"{path}: expected a list of names under 'COLLECTIONS'")
    return config


def _parts(uri: str, where: str) -> re.Match[str]:
    match = URI.fullmatch(uri)
    # A host that is none may be a piece of an unescaped password, so it is not repeated.
    if match is None or not all(HOST.fullmatch(host) for host in match["hosts"].split(",")):
        raise UsageError(
            f"mongodb: {where} cannot be read; expected {EXPECTED}, with / ? : @ in a password "
            "written as %2F %3F %3A %40"
        )
    return match


def _split_options(query: str) -> tuple[dict[str, str], str]:
    """Our own options, and the rest as pymongo reads it."""
    own: dict[str, str] = {}
    others: list[str] = []
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in OWN_OPTIONS:
            others.append(f"{key}={quote(value, safe=',:/')}")
            continue
        if not value or key in own:
            raise UsageError(f"mongodb: option {key!r} needs one value, as in ?{key}=NAME")
        own[key] = value
    return own, "&".join(others)


def _names(listed: str | None) -> tuple[str, ...]:
    names = tuple(name.strip() for name in (listed or "").split(",") if name.strip())
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"mongodb: collection {twice!r} is named twice in ?collections=")
    return names

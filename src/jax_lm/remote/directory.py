"""A directory on an object store, through fsspec."""

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from jax_lm.documents.files.locations import (
    open_filesystem,
    protocol_of,
    unreachable,
    without_secrets,
)
from jax_lm.documents.files.remote import STAMPS
from jax_lm.errors import JaxLMError

OBJECT_STORES = ("gs", "gcs", "s3", "s3a", "az", "abfs", "abfss", "hf", "memory")
REFUSED = re.compile(
    r"\b40[13]\b|anonymous|credential|denied|forbidden|unauthorized", re.IGNORECASE
)
"""In what drivers say of a store that does not know who asks, or does not let them."""
LOG_IN = {
    "gs": "gcloud auth application-default login, or GOOGLE_APPLICATION_CREDENTIALS",
    "s3": "aws configure, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "hf": "hf auth login, or HF_TOKEN",
}
PROBE = "_writable"
TIMES = ("mtime", "LastModified", "last_modified", "created")
"""Under which drivers give a file's time of writing."""


def is_object_store(place: str) -> bool:
    """Whether a place is a URL on an object store; web pages and databases are none."""
    _, _, path = place.partition("://")
    plain = path.strip("/") and "::" not in place and "?" not in place
    return bool(plain) and protocol_of(place) in OBJECT_STORES


class StoredFile(NamedTuple):
    """What a store says of a file."""

    num_bytes: int
    version: str
    """Etag, generation or time of writing, whatever there is."""
    md5: str | None
    """Base64, where the store keeps it."""
    written: datetime | None = None
    """With its time zone, where the driver gives it."""


class RemoteDirectory:
    """Files by their names relative to a URL.

    All methods raise JaxLMError, one sentence, where the store does not do what it is asked for.
    """

    def __init__(self, url: str) -> None:
        """Name the place; nothing is asked yet."""
        given = url.rstrip("/")
        self.url = f"gs://{given[6:]}" if given.startswith("gcs://") else given
        self.shown = without_secrets(self.url)

    @property
    def name(self) -> str:
        """The last part of the URL."""
        return self.shown.rsplit("/", 1)[-1]

    @property
    def is_bucket(self) -> bool:
        """Whether the URL names no folder of the bucket."""
        return "/" not in self.url.partition("://")[2]

    @property
    def parent(self) -> "RemoteDirectory":
        """The directory that this one lies in."""
        return RemoteDirectory(self.url.rsplit("/", 1)[0])

    def files(self, under: str = "") -> dict[str, StoredFile]:
        """Every file, or those whose names begin with ``under/``; none where there is nothing."""
        filesystem, path = open_filesystem(self.url)
        place = f"{path}/{under}".rstrip("/")
        try:
            filesystem.invalidate_cache()
            found = filesystem.find(place, detail=True)
        except FileNotFoundError:
            return {}
        except Exception as error:  # each driver has its own
            raise self._unread("", error) from error
        names = {str(full).removeprefix("/")[len(path.strip("/")) + 1 :]: full for full in found}
        return {name: _stored(found[full]) for name, full in names.items() if name}

    def read(self, name: str) -> bytes | None:
        """A small file; None where there is none."""
        filesystem, path = open_filesystem(self.url)
        try:
            filesystem.invalidate_cache()
            return bytes(filesystem.cat_file(f"{path}/{name}"))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._unread(f"/{name}", error) from error

    def download(self, names: Iterable[str], into: Path) -> None:
        """Bring files here, each under its name in ``into``."""
        wanted = list(names)
        filesystem, path = open_filesystem(self.url)
        for name in wanted:
            (into / name).parent.mkdir(parents=True, exist_ok=True)
        try:
            filesystem.get([f"{path}/{name}" for name in wanted], [str(into / n) for n in wanted])
        except Exception as error:
            raise self._unread("", error) from error

    def upload(self, files: Mapping[str, Path]) -> None:
        """Send files that do not change meanwhile, by the names they get."""
        if not files:
            return
        filesystem, path = open_filesystem(self.url)
        try:
            filesystem.put(list(map(str, files.values())), [f"{path}/{name}" for name in files])
        except Exception as error:
            raise self._unwritten("", error) from error

    def write(self, name: str, data: bytes) -> None:
        """Send a small file."""
        self._write(name, lambda filesystem, place: filesystem.pipe_file(place, data))

    def refuse_unwritable(self) -> None:
        """Write and remove a small file, so that what does not work is told before hours of work.

        Raises:
            JaxLMError: the bucket is not there, or nothing may be written to it.
        """
        self.write(PROBE, b"")
        self.remove([PROBE])

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, in this order; those that are not there are left out."""
        for name in names:
            self._write(name, _removed)

    def _write(self, name: str, action: Callable[[Any, str], Any]) -> None:
        filesystem, path = open_filesystem(self.url)
        try:
            action(filesystem, f"{path}/{name}")
        except Exception as error:
            raise self._unwritten(f"/{name}", error) from error

    def _unread(self, name: str, error: Exception) -> JaxLMError:
        return JaxLMError(f"{unreachable(f'{self.url}{name}', error)}{self._advice(error)}")

    def _unwritten(self, name: str, error: Exception) -> JaxLMError:
        # A store makes folders by itself, but no buckets; a local file would be named.
        if isinstance(error, FileNotFoundError) and error.filename is None:
            return JaxLMError(
                f"{self.shown}: cannot be written: there is no such bucket: make it, or see "
                "whether its name is right"
            )
        reason = without_secrets(" ".join(str(error).split()))
        said = f"{type(error).__name__}: {reason}" if reason else type(error).__name__
        return JaxLMError(f"{self.shown}{name}: cannot be written: {said}{self._advice(error)}")

    def _advice(self, error: Exception) -> str:
        """What to do about an error that credentials or rights may be the cause of."""
        if not REFUSED.search(f"{type(error).__name__} {error}"):
            return ""
        way = LOG_IN.get(self.url.partition("://")[0])
        named = f" ({way})" if way else ""
        return f": log in with an account that may do this{named}"


def _removed(filesystem: Any, place: str) -> None:
    with suppress(FileNotFoundError):
        filesystem.rm_file(place)


def differing(stored: Mapping[str, StoredFile], local: Mapping[str, Path]) -> list[str]:
    """Names of local files that a store does not hold as they are, as far as it tells."""
    return [name for name, path in local.items() if not _is_same(stored.get(name), path)]


def _is_same(stored: StoredFile | None, path: Path) -> bool:
    if stored is None or stored.num_bytes != path.stat().st_size:
        return False
    return stored.md5 is None or stored.md5 == _md5(path)


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
    return base64.b64encode(digest.digest()).decode()


def _stored(info: Mapping[str, Any]) -> StoredFile:
    version = " ".join(f"{key}={info[key]}" for key in STAMPS if info.get(key))
    times = (info.get(key) for key in TIMES)
    written = next((time for time in times if isinstance(time, datetime) and time.tzinfo), None)
    return StoredFile(int(info.get("size") or 0), version, info.get("md5Hash"), written)

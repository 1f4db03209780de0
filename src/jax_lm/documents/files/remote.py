"""Files of any fsspec filesystem: found by URL, glob or directory, and read where they are."""

import io
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jax_lm.documents.files.finding import lies_apart
from jax_lm.documents.files.locations import (
    NO_QUERIES,
    WEB,
    open_filesystem,
    protocol_of,
    unreachable,
    without_secrets,
)
from jax_lm.errors import JaxLMError

STAMPS = (
    "etag",
    "ETag",
    "md5Hash",
    "content-md5",
    "blob_id",
    "generation",
    "updated",
    "LastModified",
    "mtime",
    "created",
)
READ_AHEAD = 1 << 20
MAGIC = "*?["


@dataclass(frozen=True)
class RemoteFile:
    """A file of an fsspec filesystem, as it was when it was found."""

    url: str = field(repr=False)
    """What the user named: it opens the filesystem, with secrets, if there are any in it."""
    path: str = field(repr=False)
    """The file's own path in that filesystem."""
    shown: str
    num_bytes: int
    version: str
    seekable: bool = True

    def open(self) -> io.BufferedReader:
        """Open it for reading.

        Raises:
            JaxLMError: now or on reading, where it cannot be reached.
        """
        return io.BufferedReader(_RemoteStream(self), READ_AHEAD)

    def size(self) -> int:
        """Its bytes; 0 where the server does not say."""
        return self.num_bytes

    def stamp(self) -> str:
        """Its etag, checksum, generation or modification time, whatever there is."""
        return self.version


class _RemoteStream(io.RawIOBase):
    """Turns any driver's failure into one sentence."""

    def __init__(self, file: RemoteFile):
        self._file = file
        filesystem, _ = open_filesystem(file.url)
        settings = {} if file.seekable else {"block_size": 0}
        try:
            self._stream: Any = filesystem.open(file.path, "rb", **settings)
        except Exception as error:
            raise unreachable(file.shown, error) from error

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return int(self._stream.seek(offset, whence))

    def tell(self) -> int:
        return int(self._stream.tell())

    def readinto(self, target: Any, /) -> int:
        try:
            data = self._stream.read(len(target))
        except Exception as error:
            raise unreachable(self._file.shown, error) from error
        target[: len(data)] = data
        return len(data)

    def close(self) -> None:
        stream = getattr(self, "_stream", None)
        if not self.closed and stream is not None:
            stream.close()
        super().close()


class RemoteFiles(NamedTuple):
    """What a URL names."""

    files: list[tuple[RemoteFile, str]]
    """With their names within the corpus, in the order of those."""
    is_directory: bool


def find_remote(url: str) -> RemoteFiles:
    """Every file that a URL names; hidden ones only if named directly.

    Raises:
        JaxLMError: nothing is there, or the place cannot be reached.
    """
    filesystem, path = open_filesystem(url)
    try:
        filesystem.invalidate_cache()
        found, root, is_directory = _listed(filesystem, url, path)
    except Exception as error:
        raise unreachable(url, error) from error
    named = {
        place: _last_part(place) if root is None else place[len(root) :].lstrip("/")
        for place in found
    }
    pattern = "" if root is None else path[len(root) :].lstrip("/")
    files = [
        (_remote_file(filesystem, url, place, found[place]), name)
        for place, name in sorted(named.items(), key=lambda item: item[1])
        if root is None or not (_is_hidden(name) or (pattern and lies_apart(name, pattern)))
    ]
    if not files and not is_directory:
        raise JaxLMError(f"{without_secrets(url)}: no file matches")
    return RemoteFiles(files, is_directory)


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))


def _listed(filesystem: Any, url: str, path: str) -> tuple[dict[str, Any], str | None, bool]:
    """Files and what is known of them; the folder their names begin under; if it was named."""
    if protocol_of(url) in WEB:
        return {path: filesystem.info(path)}, None, False
    if any(mark in path for mark in MAGIC):
        found = filesystem.glob(path, detail=True)
        for place in [place for place, info in found.items() if info["type"] == "directory"]:
            del found[place]
            found.update(filesystem.find(place, detail=True))
        return found, _fixed_part(path), False
    info = filesystem.info(path)
    if info["type"] == "directory":
        return filesystem.find(path, detail=True), path, True
    return {path: info}, None, False


def _remote_file(filesystem: Any, url: str, place: str, info: dict[str, Any]) -> RemoteFile:
    size = info.get("size")
    seekable = size is not None
    if protocol_of(url) in WEB:
        seekable = bool(size) and _serves_ranges(filesystem, place, info)
    version = " ".join(f"{key}={info[key]}" for key in STAMPS if info.get(key))
    full = place if "://" in place else filesystem.unstrip_protocol(place)
    return RemoteFile(url, place, without_secrets(str(full)), int(size or 0), version, seekable)


def _serves_ranges(filesystem: Any, place: str, info: dict[str, Any]) -> bool:
    """Whether a web server sends a part of a file; many do not say, so one is asked for."""
    if info["size"] < 2 or not info.get("partial", True):
        return False
    try:
        with filesystem.open(place, "rb", block_size=1) as stream:
            stream.seek(1)
            return len(stream.read(1)) == 1
    except ValueError:
        return False


def _fixed_part(path: str) -> str:
    parts = path.split("/")
    is_fixed = [not any(mark in part for mark in MAGIC) for part in parts]
    return "/".join(parts[: is_fixed.index(False)])


def _last_part(place: str) -> str:
    """The file's own name; of a web address without its query."""
    bare = without_secrets(place) if protocol_of(place) not in (None, *NO_QUERIES) else place
    return bare.rstrip("/").rsplit("/", 1)[-1]

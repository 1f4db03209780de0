"""Bytes -> text and back to a line number: strict UTF-8, told where it breaks."""

from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from pathlib import PurePosixPath

from jax_lm.documents.base import BadRecord, RejectedRecord
from jax_lm.documents.files.splitting import RawRecord
from jax_lm.documents.files.stored import DataFile


class BrokenRecord(BadRecord):
    """A record whose very syntax is broken, so that its neighbours may well be whole."""


def decode_utf8(raw: RawRecord) -> str:
    """Decode a record strictly; a byte order mark that opens the file is not text.

    Raises:
        BadRecord: the bytes are not UTF-8; it names the line, the byte and a remedy.
    """
    skipped = len(BOM_UTF8) if raw.offset == 0 and raw.data.startswith(BOM_UTF8) else 0
    try:
        return raw.data[skipped:].decode("utf-8")
    except UnicodeDecodeError as error:
        start = skipped + error.start
        reason = _not_utf8(raw.file, raw.data[start], raw.offset + start, _is_utf16(raw))
        raise BrokenRecord(rejected(raw, reason, start)) from error


def bad_record(raw: RawRecord, reason: str) -> BadRecord:
    """The error for a record that is whole but not what was expected."""
    return BadRecord(rejected(raw, reason))


def broken_record(raw: RawRecord, reason: str) -> BadRecord:
    """The error for a record whose syntax is broken."""
    return BrokenRecord(rejected(raw, reason))


def rejected(raw: RawRecord, reason: str, start: int = 0) -> RejectedRecord:
    """What is kept of a record, broken at its byte ``start``."""
    line = raw.numbers.at(raw.offset + start)
    text = raw.data.decode("utf-8", "backslashreplace")
    return RejectedRecord(raw.file.shown, line, reason, text)


def _is_utf16(raw: RawRecord) -> bool:
    return raw.offset == 0 and raw.data.startswith((BOM_UTF16_LE, BOM_UTF16_BE))


def _not_utf8(file: DataFile, byte: int, offset: int, is_utf16: bool) -> str:
    encoding = "utf-16" if is_utf16 else "latin1"
    name = PurePosixPath(file.name).name.removesuffix(file.compression or "")
    unpack = "" if file.compression is None else "unpack and "
    return (
        f"byte 0x{byte:02x} at offset {offset} is not UTF-8; {unpack}convert the file, for "
        f"example with `iconv -f {encoding} -t utf-8 {name} > utf8-{name}`"
    )

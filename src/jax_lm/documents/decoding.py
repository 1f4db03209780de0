"""Bytes -> text and back to a line number: strict UTF-8, told where it breaks."""

from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from pathlib import Path

from jax_lm.documents.base import BadRecord, RejectedRecord
from jax_lm.documents.splitting import RawRecord

BLOCK = 1 << 20


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
        raise bad_record(raw, _not_utf8(raw, start), start) from error


def bad_record(raw: RawRecord, reason: str, start: int = 0) -> BadRecord:
    """The error for a record, broken at its byte ``start``; finds the line by counting newlines."""
    line = 1 + count_newlines(raw.path, raw.offset + start)
    text = raw.data.decode("utf-8", "backslashreplace")
    return BadRecord(RejectedRecord(str(raw.path), line, reason, text))


def count_newlines(path: Path, stop: int) -> int:
    """Newlines in the first ``stop`` bytes of a file."""
    count = 0
    with path.open("rb") as file:
        while stop > 0 and (block := file.read(min(BLOCK, stop))):
            count += block.count(b"\n")
            stop -= len(block)
    return count


def _not_utf8(raw: RawRecord, start: int) -> str:
    wide = raw.offset == 0 and raw.data.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
    encoding = "utf-16" if wide else "latin1"
    name = raw.path.name
    return (
        f"byte 0x{raw.data[start]:02x} at offset {raw.offset + start} is not UTF-8; convert the "
        f"file, for example with `iconv -f {encoding} -t utf-8 {name} > utf8-{name}`"
    )

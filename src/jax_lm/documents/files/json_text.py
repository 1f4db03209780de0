"""A long JSON text read value by value through a window, in bounded memory."""

import codecs
import json
import re
from json.decoder import JSONDecoder
from typing import Any, NamedTuple, NoReturn

from jax_lm.documents.base import RejectedRecord
from jax_lm.documents.files.decoding import BrokenRecord
from jax_lm.documents.files.jsonl import broken_json
from jax_lm.documents.files.line_numbers import LineNumbers
from jax_lm.documents.files.splitting import RawRecord
from jax_lm.documents.files.stored import DataFile

WINDOW = 1 << 20
LONGEST_VALUE = 1 << 29
"""Characters; a value has to fit into memory."""
LONG_VALUE = 1 << 24
"""Characters; a value as long as this is looked into before the whole of it is read."""
UNFINISHED = 16
"""An error so close to the window's end may be a literal or an escape that goes on after it."""
SPACE = " \t\r\n"
RAW_SHOWN = 200
LOOK_AHEAD = 4096
LIST_OF_RECORDS = re.compile(r"\[\s*[\[{]")


class JsonValue(NamedTuple):
    """A value and its bytes."""

    raw: RawRecord
    value: Any

    @property
    def stop(self) -> int | None:
        """The byte after it."""
        return self.raw.stop


class JsonText:
    """The values and marks of a JSON text from a byte on; whitespace between them is skipped."""

    def __init__(self, file: DataFile, start: int = 0):
        self._file = file
        self._numbers = LineNumbers(file)
        self._stream = file.open(start)
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._decoder = JSONDecoder()
        self._window = ""
        self._at = 0
        self._offset = start
        """The byte at which the next character stands."""

    def __enter__(self) -> "JsonText":
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()
        self._numbers.__exit__()

    def peek(self) -> str:
        """The next character that is no space; empty at the end."""
        while True:
            at = self._at
            while at < len(self._window) and self._window[at] in SPACE:
                at += 1
            self._advance(at - self._at)
            if at < len(self._window):
                return self._window[at]
            if not self._fill():
                return ""

    def take(self, expected: str) -> str:
        """Take the next mark, one of ``expected``.

        Raises:
            BadRecord: another character stands there, or none.
        """
        mark = self.peek()
        if not mark or mark not in expected:
            wanted = " or ".join(map(repr, expected))
            self.refuse(
                f"broken JSON, expected {wanted}, found {mark!r}"
                if mark
                else f"broken JSON, the file ends where {wanted} was expected"
            )
        self._advance(1)
        return mark

    def value(self) -> JsonValue:
        """Take the next value.

        Raises:
            BadRecord: there is no whole value.
        """
        self.peek()
        while True:
            at = self._at  # reading on moves it
            try:
                value, end = self._decoder.raw_decode(self._window, at)
            except json.JSONDecodeError as error:
                if not self._may_go_on(error) or not self._fill():
                    self.refuse(broken_json(error, at))
            except (ValueError, RecursionError) as error:
                self.refuse(f"JSON that cannot be read ({error})")
            else:
                if end < len(self._window) or not self._fill():
                    end += self._at - at
                    break
        return JsonValue(self._take_raw(end), value)

    def whole_value(self) -> Any:
        """The next value, None if it is broken or a long one; it is not taken."""
        self.peek()
        while True:
            try:
                return self._decoder.raw_decode(self._window, self._at)[0]
            except json.JSONDecodeError as error:
                is_long = len(self._window) - self._at >= LONG_VALUE
                if is_long or not self._may_go_on(error) or not self._fill():
                    return None
            except (ValueError, RecursionError):
                return None

    def begins_list_of_records(self) -> bool:
        """Whether a list of objects or of lists stands here."""
        self.peek()
        while len(self._window) - self._at < LOOK_AHEAD and self._fill():
            pass
        return LIST_OF_RECORDS.match(self._window, self._at) is not None

    def raw(self, data: bytes, offset: int) -> RawRecord:
        """A record that began at ``offset`` and ends here."""
        return RawRecord(self._file, self._numbers, offset, self._offset, data)

    @property
    def offset(self) -> int:
        """The byte at which the next character stands."""
        return self._offset

    def refuse(self, reason: str) -> NoReturn:
        """Raise for what stands here; what follows cannot be told apart, so nothing is skipped."""
        line = self._numbers.at(self._offset)
        shown = self._window[self._at : self._at + RAW_SHOWN]
        raise BrokenRecord(RejectedRecord(self._file.shown, line, reason, shown))

    def _take_raw(self, end: int) -> RawRecord:
        offset = self._offset
        data = self._window[self._at : end].encode("utf-8")
        self._at = end
        self._offset += len(data)
        return self.raw(data, offset)

    def _may_go_on(self, error: json.JSONDecodeError) -> bool:
        if len(self._window) - self._at > LONGEST_VALUE:
            self.refuse(f"a JSON value of more than {LONGEST_VALUE:,} characters")
        is_open = error.msg.startswith("Unterminated string")
        return is_open or error.pos >= len(self._window) - UNFINISHED

    def _advance(self, characters: int) -> None:
        passed = self._window[self._at : self._at + characters]
        self._at += characters
        self._offset += len(passed.encode("utf-8"))

    def _fill(self) -> bool:
        """Read on; at least as much again, so that a long value is not read too often."""
        self._window = self._window[self._at :]
        self._at = 0
        before = len(self._window)
        data = self._stream.read(max(WINDOW, before))
        try:
            self._window += self._utf8.decode(data, final=not data)
        except UnicodeDecodeError as error:
            self._refuse_bytes(error)
        if self._offset == 0 and before == 0 and self._window.startswith("\ufeff"):
            self._advance(1)
        return bool(data)

    def _refuse_bytes(self, error: UnicodeDecodeError) -> NoReturn:
        offset = self._offset + len(self._window.encode("utf-8")) + error.start
        line = self._numbers.at(offset)
        reason = f"byte 0x{error.object[error.start]:02x} at offset {offset} is not UTF-8"
        raise BrokenRecord(
            RejectedRecord(self._file.shown, line, f"{reason}; convert the file with iconv", "")
        )

"""``.txt``: one document a file, or one a line; newlines within a document stay as they are."""

from dataclasses import dataclass

from jax_lm.documents.decoding import decode_utf8
from jax_lm.documents.splitting import RawRecord, lines, next_line, no_boundary, whole_file
from jax_lm.types import Document, Segment


@dataclass(frozen=True)
class TextReader:
    """The whole file is one document."""

    boundary = staticmethod(no_boundary)
    records = staticmethod(whole_file)

    def document(self, raw: RawRecord) -> Document:
        """The file's text.

        Raises:
            BadRecord: the file is not UTF-8.
        """
        return Document((Segment(decode_utf8(raw)),), id=raw.name)


@dataclass(frozen=True)
class LineReader:
    """Each line that is not blank is a document, without its newline."""

    boundary = staticmethod(next_line)
    records = staticmethod(lines)

    def document(self, raw: RawRecord) -> Document:
        """The line's text.

        Raises:
            BadRecord: the line is not UTF-8.
        """
        text = decode_utf8(raw).removesuffix("\n").removesuffix("\r")
        return Document((Segment(text),), id=f"{raw.name}@{raw.offset}")

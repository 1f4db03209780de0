"""``.txt``: one document a file, or one a line; newlines within a document stay as they are."""

from dataclasses import dataclass

from jax_lm.documents.files.decoding import decode_utf8
from jax_lm.documents.files.splitting import RawRecord, line_cuts, lines, no_cuts, whole_file
from jax_lm.types import Document, Segment


@dataclass(frozen=True)
class TextFormat:
    """The whole file is one document."""

    cuts = staticmethod(no_cuts)
    records = staticmethod(whole_file)

    def document(self, raw: RawRecord) -> Document:
        """The file's text.

        Raises:
            BadRecord: the file is not UTF-8.
        """
        return Document((Segment(decode_utf8(raw)),), id=raw.file.name)


@dataclass(frozen=True)
class LineFormat:
    """Each line that is not blank is a document, without its newline."""

    cuts = staticmethod(line_cuts)
    records = staticmethod(lines)

    def document(self, raw: RawRecord) -> Document:
        """The line's text.

        Raises:
            BadRecord: the line is not UTF-8.
        """
        text = decode_utf8(raw).removesuffix("\n").removesuffix("\r")
        return Document((Segment(text),), id=raw.id)

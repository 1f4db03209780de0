"""Which fields of a record hold its text and its subset; one place for every record format."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jax_lm.documents.conversations.templates import DEFAULT, ChatTemplate, chat_template
from jax_lm.documents.reading import ReadingOptions
from jax_lm.documents.records import (
    RecordError,
    record_metadata,
    record_segments,
    record_subset,
)
from jax_lm.types import Document, Segment


@dataclass(frozen=True)
class RecordFields:
    """How a record becomes a document; its ``repr`` says every setting."""

    text: str | None = None
    """Dotted path of the text, None for the fields that are known by name."""
    subset: str | None = None
    """Dotted path of the subset's name, None for ``meta.pile_set_name`` where present."""
    template: ChatTemplate = DEFAULT
    """How conversations become text."""

    @classmethod
    def of(cls, written: Mapping[str, str], options: ReadingOptions) -> "RecordFields":
        """From the ``?`` options of a SPEC and the flags of a verb.

        Raises:
            JaxLMError: there is no such chat template.
        """
        template = options.chat_template
        chosen = DEFAULT if template is None else chat_template(template)
        return cls(written.get("text"), written.get("subset"), chosen)

    def document(self, record: object, identity: str, may_hold_surrogates: bool = True) -> Document:
        """The record as a document.

        Args:
            record: what a line of JSON, or a row of a table, holds.
            identity: the document's id.
            may_hold_surrogates: whether the text has to be checked for halves of surrogate pairs.

        Raises:
            RecordError: a missing field, a wrong type or text that is not Unicode.
        """
        segments = record_segments(record, self.text, self.template)
        subset = record_subset(record, self.subset)
        if may_hold_surrogates:
            _refuse_lone_surrogates(segments, subset)
        return Document(segments, identity, subset, record_metadata(record, self.text))

    def recognises(self, names: Iterable[str]) -> bool:
        """Whether a record with fields of these names would hold a text."""
        return bool(self.text_fields(names))

    def text_fields(self, names: Iterable[str]) -> list[str]:
        """Those of the names that the text of a record is in; none where it holds no text."""
        record = dict.fromkeys(names)
        if self.text is not None:
            return [name for name in (self.text, self.text.split(".")[0]) if name in record][:1]
        try:
            others = record_metadata(record, None)
        except RecordError:
            return []
        return [name for name in record if name not in others]


def _refuse_lone_surrogates(segments: tuple[Segment, ...], subset: str) -> None:
    for text in (*(segment.text for segment in segments), subset):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            code = ord(text[error.start])
            raise RecordError(
                f"half a surrogate pair, \\u{code:04x}, at character {error.start + 1} of the "
                "text; write both halves, or the character itself"
            ) from error

"""The documents of a source that were asked for, as a source."""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

from jax_lm.documents.base import Cursor, DocumentRange, DocumentSource
from jax_lm.documents.reading import PERCENT, ReadingOptions
from jax_lm.documents.selection.cleaning import clean_document, cleaning
from jax_lm.documents.wrapped import WrappedSource
from jax_lm.errors import JaxLMError
from jax_lm.types import Document

HASHES = 1 << 64
ASKED = (
    "subsets",
    "exclude_subsets",
    "normalize",
    "remove_urls",
    "allowed_characters",
    "cleaning",
    "min_characters",
    "max_characters",
    "split",
)
"""The options that change what is read."""

Rule = Callable[[Document], Document | str]
"""Gives the document, cleaned perhaps, or the reason for which it is left out."""


def selected(source: DocumentSource, options: ReadingOptions) -> DocumentSource:
    """The source, or one that leaves out and cleans what the options ask for."""
    nothing = ReadingOptions()
    if all(getattr(options, name) == getattr(nothing, name) for name in ASKED):
        return source
    return SelectedSource(source, options)


class SelectedSource(WrappedSource):
    """The documents of a source that pass every rule; the others are counted in ``dropped``."""

    def __init__(self, source: DocumentSource, options: ReadingOptions):
        self.source = source
        self.options = options
        self._rules = _rules(options)

    def __getstate__(self) -> dict[str, Any]:
        """The rules are functions, made anew in the process that needs them."""
        return {"source": self.source, "options": self.options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make the rules again."""
        self.__dict__.update(state)
        self._rules = _rules(self.options)

    def fingerprint(self) -> str:
        """Changes with the source and with what is asked of it."""
        asked = [(name, getattr(self.options, name)) for name in ASKED]
        share = self.options.held_out_percent if self.options.split != "all" else None
        text = f"{self.source.fingerprint()} selected {asked!r} {share!r}"
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()

    def ranges(self, target_bytes: int) -> list[DocumentRange]:
        """The whole source's ranges; a range may hold no document that is kept."""
        return self.source.ranges(target_bytes)

    def read(self, start: Cursor, stop: Cursor | None = None) -> Iterator[tuple[Cursor, Document]]:
        """Yield the documents that are kept, each with the cursor right after it.

        Raises:
            JaxLMError: a document holds ready-made ids, whose text cannot be judged.
        """
        for cursor, document in self.source.read(start, stop):
            kept = self._judge(document)
            if isinstance(kept, str):
                self.dropped[kept] += 1
            else:
                yield cursor, kept

    def _judge(self, document: Document) -> Document | str:
        for rule in self._rules:
            judged = rule(document)
            if isinstance(judged, str):
                return judged
            document = judged
        return document


def held_out(document: Document, percent: float) -> bool:
    """Whether a document falls on the held-out side, by a hash of what people wrote in it.

    The same text falls on the same side on every machine, in every order, and whatever the chat
    template writes around it.
    """
    digest = hashlib.blake2b(digest_size=8)
    for segment in document.segments:
        if segment.ids is not None:
            digest.update(segment.ids.astype("<i8").tobytes())
        elif not segment.markup:
            digest.update(segment.text.strip().encode("utf-8", "surrogatepass"))
    return int.from_bytes(digest.digest(), "big") < percent / PERCENT * HASHES


def num_characters(document: Document) -> int:
    """Characters that people wrote, without white space around the whole."""
    return len("".join(s.text for s in document.segments if not s.markup).strip())


def _rules(options: ReadingOptions) -> tuple[Rule, ...]:
    """Cheap ones first; lengths and splits are of the cleaned text."""
    rules: list[Rule] = []
    if options.subsets is not None or options.exclude_subsets is not None:
        rules.append(_subset_rule(options.kept_subsets, options.left_out_subsets))
    if steps := cleaning(options):
        rules += [_needs_text, lambda document: _cleaned(document, steps)]
    if options.fewest_characters is not None or options.max_characters is not None:
        rules += [_needs_text, _length_rule(options.fewest_characters, options.max_characters)]
    if options.split != "all":
        rules.append(_split_rule(options.split == "held-out", options.held_out_percent))
    return tuple(rules)


def _needs_text(document: Document) -> Document:
    if any(segment.ids is not None for segment in document.segments):
        raise JaxLMError(
            f"{document.id}: already tokenised, so its characters cannot be cleaned or counted; "
            "leave the flags for text away"
        )
    return document


def _cleaned(document: Document, steps: Any) -> Document | str:
    cleaned = clean_document(document, steps)
    scored = any(s.weight and not s.markup and s.text.strip() for s in cleaned.segments)
    return cleaned if scored else "no text left after cleaning"


def _subset_rule(kept: frozenset[str] | None, left_out: frozenset[str]) -> Rule:
    def rule(document: Document) -> Document | str:
        if document.subset in left_out or (kept is not None and document.subset not in kept):
            return "of another subset"
        return document

    return rule


def _length_rule(fewest: int | None, most: int | None) -> Rule:
    def rule(document: Document) -> Document | str:
        count = num_characters(document)
        if fewest is not None and count < fewest:
            return f"shorter than {fewest:,} characters"
        if most is not None and count > most:
            return f"longer than {most:,} characters"
        return document

    return rule


def _split_rule(wants_held_out: bool, percent: float) -> Rule:
    reason = "not held out" if wants_held_out else "held out"

    def rule(document: Document) -> Document | str:
        return document if held_out(document, percent) == wants_held_out else reason

    return rule

"""Text -> cleaner text: a pure function of one document, segment by segment."""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from jax_lm.documents.reading import NormalForm, ReadingOptions
from jax_lm.documents.selection.characters import keep_characters
from jax_lm.types import Document, Segment

URL = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:https?|ftp)://|www\.(?=[A-Za-z0-9]))"
    r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]*[A-Za-z0-9\-_~/#@$&*+=%]",
    re.IGNORECASE,
)
"""By its ASCII characters (RFC 3986), for a Korean particle may follow without a space; the full
stop or bracket that ends a sentence is not part of it."""

Clean = Callable[[str], str]


def cleaning(options: ReadingOptions) -> tuple[Clean, ...]:
    """The steps that were asked for, in the order in which they are taken; often none."""
    steps: list[Clean] = []
    if options.normalize != "none":
        steps.append(partial(normalized, form=options.normalize))
    if options.removes_urls:
        steps.append(without_urls)
    if options.characters is not None:
        steps.append(keep_characters(options.characters))
    return tuple(steps)


def clean_document(document: Document, steps: tuple[Clean, ...]) -> Document:
    """The document with what people wrote in it cleaned; a template's markup stays."""
    segments = tuple(_clean_segment(segment, steps) for segment in document.segments)
    return replace(document, segments=segments)


def normalized(text: str, form: NormalForm) -> str:
    """The text in a Unicode normalization form."""
    if text.isascii() or unicodedata.is_normalized(form, text):
        return text
    return unicodedata.normalize(form, text)


def without_urls(text: str) -> str:
    """The text without web addresses."""
    if "://" not in text and "www." not in text.lower():
        return text
    return URL.sub("", text)


def _clean_segment(segment: Segment, steps: tuple[Clean, ...]) -> Segment:
    if segment.markup:
        return segment
    text = segment.text
    for step in steps:
        text = step(text)
    return segment if text == segment.text else replace(segment, text=text)

"""Where the sentences of a text end."""

import re
from collections.abc import Callable, Iterator, Sequence

from jax_lm.errors import missing_extra

LANGUAGE = "en"
"""Whose abbreviations are known; what ends a sentence is known of every script."""
PARAGRAPH = re.compile(r"\n\s*\n")
LONGEST = 5_000
"""Characters cut at once: the splitter is quadratic, and loses line ends between longer pieces."""


def sentence_ends(text: str) -> Sequence[int]:
    """UTF-8 offsets at which the sentences of a text end, white space after one included.

    A blank line ends a sentence, too.

    Raises:
        JaxLMError: the sentence splitter is not installed.
    """
    try:
        from sentencex import segment
    except ImportError:
        raise missing_extra("sentencex", "sentences", "--sentences") from None
    ends: list[int] = []
    position = 0
    for part in _parts(text, lambda piece: segment(LANGUAGE, piece)):
        position += len(part.encode())
        if not part.isspace():
            ends.append(position)
        elif ends:
            ends[-1] = position
    return ends


def _parts(text: str, split: Callable[[str], list[str]]) -> Iterator[str]:
    """The sentences of each paragraph, and the white space between; together they are the text."""
    start = 0
    cuts = [match.end() for match in PARAGRAPH.finditer(text)]
    for stop in [*cuts, len(text)]:
        while start < stop:
            piece = text[start : min(stop, start + LONGEST)]
            parts = split(piece)
            if "".join(parts) != piece:
                parts = [piece]
            elif len(parts) > 1 and start + len(piece) < stop:
                parts.pop()  # it may go on
            yield from parts
            start += sum(map(len, parts))

"""Which part of the markup after an assistant's text ends its turn."""

import re
from itertools import takewhile

WHOLE = re.compile(r"<[^<>]*>|\[[^\[\]]*\]|\s+|[^\s<\[]+|.", re.DOTALL)
"""Special tokens, white space and words: what is never cut within."""


def closing_length(markup: str, ending: str, *, last: bool) -> int:
    """Number of characters of ``markup`` that end the turn, and so are to be learned.

    Args:
        markup: what the template writes from an assistant's text up to the next text.
        ending: what it writes after an assistant's text where nothing follows.
        last: nothing follows here.

    Returns:
        All that ends every turn alike, without white space after it; the white space itself
        where a turn ends in nothing else.
    """
    closing = markup if last else _common(markup, ending)
    return len(closing.rstrip()) or len(closing)


def _common(markup: str, ending: str) -> str:
    pairs = zip(WHOLE.findall(markup), WHOLE.findall(ending), strict=False)
    return "".join(mine for mine, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

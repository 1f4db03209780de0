"""Where the sentences of a text end."""

from collections.abc import Sequence
from itertools import accumulate

from jax_lm.errors import missing_extra


def sentence_ends(text: str) -> Sequence[int]:
    """UTF-8 offsets at which the sentences of a text end, white space after one included.

    Raises:
        JaxLMError: the sentence splitter is not installed.
    """
    try:
        from sentencex import segment
    except ImportError:
        raise missing_extra("sentencex", "sentences", "--sentences") from None
    return list(accumulate(len(part.encode("utf-8")) for part in segment("en", text)))

"""ROUGE-1 and ROUGE-L (Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries").

The numbers of the package ``rouge_score`` without stemming, which it is tested against: words are
runs of ASCII letters and digits, in lower case. Text without such words, as Korean is, needs words
of another kind: runs of letters and digits of any script.
"""

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Literal

WordKind = Literal["ascii", "unicode"]
WORDS = {"ascii": re.compile(r"[a-z0-9]+"), "unicode": re.compile(r"[^\W_]+")}


def words(text: str, kind: WordKind = "ascii") -> list[str]:
    """The words of a text, in lower case."""
    return WORDS[kind].findall(text.lower())


def rouge_1(reference: Sequence[str], generated: Sequence[str]) -> float:
    """F1 of the words that both have, each as often as both have it."""
    shared = Counter(reference) & Counter(generated)
    return _f1(shared.total(), len(reference), len(generated))


def rouge_l(reference: Sequence[str], generated: Sequence[str]) -> float:
    """F1 of the longest common subsequence."""
    return _f1(common_subsequence(reference, generated), len(reference), len(generated))


def common_subsequence(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Length of the longest common subsequence.

    Rows of the usual table are the bits of one integer (Hyyrö 2004, "Bit-parallel LCS-length
    computation revisited").
    """
    places: dict[Hashable, int] = {}
    for i, item in enumerate(one):
        places[item] = places.get(item, 0) | 1 << i
    full = (1 << len(one)) - 1
    row = full
    for item in other:
        match = row & places.get(item, 0)
        row = (row + match | row - match) & full
    return len(one) - row.bit_count()


def _f1(shared: int, reference: int, generated: int) -> float:
    return 2 * shared / (reference + generated) if shared else 0.0

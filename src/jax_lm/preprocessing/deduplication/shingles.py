"""Text -> hashes of its runs of five words."""

import hashlib
import re
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, UInt

SHINGLE_WORDS = 5
UNSPACED = r"\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
"""Kana and Han, which are written without spaces: each character counts as a word."""
HAS_UNSPACED = re.compile(f"[{UNSPACED}]")
WORD, WORD_OR_CHARACTER = re.compile(r"\w+"), re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+")
ASCII_TO_SPACE = {code: " " for code in range(128) if WORD.match(chr(code)) is None}
CACHED_WORDS = 1 << 18
_ODD = np.frombuffer(hashlib.shake_256(b"shingles").digest(8 * SHINGLE_WORDS), "<u8") | 1


class Shingles(NamedTuple):
    """Hashes of the shingles of some texts, one text after another."""

    hashes: UInt[np.ndarray, "shingles"]
    """uint32."""
    counts: Int[np.ndarray, "texts"]
    """Shingles of each text (int64); 0 for a text of fewer than five words."""


class WordHashes(dict[str, int]):
    """The 64-bit hash of a word, remembered: a few thousand words make up most of any text."""

    def __missing__(self, word: str) -> int:
        if len(self) >= CACHED_WORDS:
            self.clear()
        digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        value = self[word] = int.from_bytes(digest, "little")
        return value


def shingles(texts: Sequence[str], hashes: WordHashes) -> Shingles:
    """All runs of five words, in lower case and without punctuation, hashed.

    A run's hash is a sum of its words' hashes, each times an odd number of its own (mod 2^64),
    its bits then mixed as splitmix64 mixes them (Steele, Lea and Flood 2014).
    """
    words = [_words(text) for text in texts]
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    every = map(hashes.__getitem__, chain.from_iterable(words))
    flat = np.fromiter(every, np.uint64, int(lengths.sum()))
    counts = np.maximum(lengths - SHINGLE_WORDS + 1, 0)
    firsts = np.repeat(np.cumsum(lengths) - lengths - np.cumsum(counts) + counts, counts)
    firsts += np.arange(len(firsts))
    total = np.zeros(len(firsts), np.uint64)
    for place, odd in enumerate(_ODD):
        total += flat[firsts + place] * odd
    return Shingles(_mixed(total), counts)


def _words(text: str) -> list[str]:
    lowered = text.lower()
    if lowered.isascii():  # as WORD finds them, three times as fast
        return lowered.translate(ASCII_TO_SPACE).split()
    spaced = HAS_UNSPACED.search(lowered) is None
    found: list[str] = (WORD if spaced else WORD_OR_CHARACTER).findall(lowered)
    return found


def _mixed(x: UInt[np.ndarray, "shingles"]) -> UInt[np.ndarray, "shingles"]:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x >> np.uint64(32)).astype(np.uint32)

"""What is kept of a document to find its copies: 16 bytes, or 532 where near copies count too.

MinHash (Broder 1997): of each of 128 hash functions, the least value over a text's shingles. The
share of functions on which two texts agree estimates the Jaccard similarity of their sets of
shingles, with a standard deviation of at most 0.044.
"""

import hashlib
from collections.abc import Iterable, Iterator

import numpy as np
from jaxtyping import UInt

from jax_lm.preprocessing.deduplication.shingles import Shingles, WordHashes, shingles
from jax_lm.types import Document

HASH_FUNCTIONS = 128
BATCH_CHARACTERS = 1 << 19  # its shingles stay in a processor's cache
EXACT = np.dtype([("text", "<u8", (2,))])
NEAR = np.dtype([("text", "<u8", (2,)), ("shingles", "<u4"), ("minhash", "<u4", (HASH_FUNCTIONS,))])
_NUMBERS = np.frombuffer(hashlib.shake_256(b"minhash").digest(8 * HASH_FUNCTIONS), "<u4")
_FACTORS, _ADDED = (_NUMBERS[:HASH_FUNCTIONS] | 1), _NUMBERS[HASH_FUNCTIONS:]


def compared_text(document: Document) -> str:
    """The text by which documents are compared: what people wrote, without a template's markup."""
    return "".join(
        segment.text if segment.ids is None else " ".join(map(str, segment.ids.tolist()))
        for segment in document.segments
        if not segment.markup
    )


def signatures(texts: Iterable[str], *, near: bool) -> np.ndarray:
    """A structured array with an element for each text, in order; a pure function of each text.

    Args:
        texts: read once, in batches of about half a million characters.
        near: near copies are looked for too. Of type ``NEAR`` then, else of type ``EXACT``:
            ``text`` is the first 128 bits of BLAKE2b over the UTF-8 text, ``shingles`` the number
            of its five-word shingles and ``minhash`` its MinHash signature (0 where it has none).
    """
    hashes = WordHashes()
    parts = [np.empty(0, NEAR if near else EXACT)]
    for batch in _batches(texts):
        part = np.zeros(len(batch), NEAR if near else EXACT)
        part["text"] = np.frombuffer(b"".join(map(_text_hash, batch)), "<u8").reshape(-1, 2)
        if near:
            found = shingles(batch, hashes)
            part["shingles"] = found.counts
            part["minhash"][found.counts > 0] = _minhash(found)
        parts.append(part)
    return np.concatenate(parts)


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for text in texts:
        batch.append(text)
        characters += len(text)
        if characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _text_hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _minhash(found: Shingles) -> UInt[np.ndarray, "texts functions"]:
    """Function j of a shingle's hash h is ``a_j h + b_j`` (mod 2^32), a_j odd."""
    counts = found.counts[found.counts > 0]
    least = np.empty((HASH_FUNCTIONS, len(counts)), np.uint32)
    if len(counts):
        firsts = np.cumsum(counts) - counts
        values = np.empty_like(found.hashes)
        for row, factor, added in zip(least, _FACTORS, _ADDED, strict=True):
            np.multiply(found.hashes, factor, out=values)
            values += added
            np.minimum.reduceat(values, firsts, out=row)
    return least.T

"""Texts -> flat ids, by the ``tokenizers`` library or by a table of characters."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tokenizers
from jaxtyping import Int

from jax_lm.errors import JaxLMError
from jax_lm.tokenizers.base import Encoded


def encode_with_library(
    tokenizer: tokenizers.Tokenizer, texts: Sequence[str], byte_lengths: Int[np.ndarray, "vocab"]
) -> Encoded:
    """Ids as the library cuts the texts.

    Raises:
        JaxLMError: a text is not Unicode.
    """
    try:
        encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    except TypeError:  # all the library says of text that is not Unicode
        _refuse_lone_surrogates(texts)
        raise
    parts = [np.array(encoding.ids, np.int32) for encoding in encodings]
    ids = np.concatenate([np.empty(0, np.int32), *parts])
    return Encoded(ids, _offsets(map(len, parts)), byte_lengths[ids])


class CharacterTable:
    """Ids of characters; a table look-up, far faster than the library's regular expression."""

    def __init__(self, vocabulary: Mapping[str, int], byte_lengths: Int[np.ndarray, "vocab"]):
        self._byte_lengths = byte_lengths
        codes = np.array([ord(character) for character in vocabulary], np.int64)
        self._ids = np.full(codes.max(initial=-1) + 2, -1, np.int32)
        self._ids[codes] = list(vocabulary.values())

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Ids of each character.

        Raises:
            JaxLMError: a character is not in the vocabulary.
        """
        joined = "".join(texts)
        codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), "<u4")
        ids = self._ids[np.minimum(codes, len(self._ids) - 1)]
        offsets = _offsets(map(len, texts))
        unknown = np.flatnonzero(ids < 0)
        if len(unknown):
            position = int(unknown[0])
            text = int(np.searchsorted(offsets, position, side="right")) - 1
            raise _unknown_character(joined[position], text, position - int(offsets[text]))
        return Encoded(ids, offsets, self._byte_lengths[ids])


def _unknown_character(character: str, text: int, position: int) -> JaxLMError:
    return JaxLMError(
        f"{character!r} (U+{ord(character):04X}), character {position} of text {text}, is not in "
        "the vocabulary; train the characters on text that has it, or use byte-level BPE, which "
        "spells every text"
    )


def _offsets(lengths: Iterable[int]) -> Int[np.ndarray, "texts_plus_one"]:
    return np.cumsum(np.fromiter((0, *lengths), np.int64), dtype=np.int64)


def _refuse_lone_surrogates(texts: Sequence[str]) -> None:
    for index, text in enumerate(texts):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            code = ord(text[error.start])
            raise JaxLMError(
                f"text {index} is not Unicode: half a surrogate pair, U+{code:04X}, at character "
                f"{error.start}; it should be read as UTF-8"
            ) from error

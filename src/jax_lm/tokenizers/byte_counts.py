"""How many bytes of the text each token stands for, also where the text was normalized first."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain

import numpy as np
import tokenizers
from jaxtyping import Bool, Int

from jax_lm.errors import JaxLMError
from jax_lm.tokenizers.encoders.base import Ids

Counts = Int[np.ndarray, "tokens"]


class ByteCounts:
    """Counts the UTF-8 bytes of each token so that they sum to those of the text.

    What a token spells is what it stands for, unless the tokenizer changes text: then texts whose
    tokens spell more or fewer bytes than they have are cut again by the library, which says which
    characters each token came from. A character that was dropped counts with the token after it,
    at the end of a text with the last one; a text that nothing is left of has no token to count.
    """

    def __init__(
        self,
        byte_lengths: Int[np.ndarray, "vocab"],
        special: Mapping[int, str],
        *,
        unknown: int | None,
        parse_special: bool,
        description: str | None,
    ):
        """Count for one way of cutting.

        Args:
            byte_lengths: bytes each id spells.
            special: names of the special tokens.
            unknown: id of the token for characters outside the vocabulary.
            parse_special: special tokens are found in texts, and stand for no bytes.
            description: the tokenizer.json that texts are cut by; None if it changes no text.
        """
        self._byte_lengths = byte_lengths
        self._special_bytes = np.zeros(len(byte_lengths), np.int64)
        for token_id, token in special.items():
            self._special_bytes[token_id] = len(token.encode("utf-8"))
        self._unknown = -1 if unknown is None else unknown
        self._parse_special = parse_special
        self._description = description

    def of(self, texts: Sequence[str], encoded: Ids) -> Counts:
        """Bytes each token stands for (int32); special tokens stand for none.

        Raises:
            JaxLMError: the ids of a text that was changed are not the library's.
        """
        ids, offsets = encoded
        counts: Counts = self._byte_lengths[ids]
        if self._description is None or not len(ids):
            return counts
        filled = np.flatnonzero(np.diff(offsets))
        starts = offsets[filled]
        wanted = np.fromiter((len(texts[i].encode("utf-8")) for i in filled.tolist()), np.int64)
        if self._parse_special:
            wanted -= np.add.reduceat(self._special_bytes[ids], starts)
        excess = np.add.reduceat(counts, starts, dtype=np.int64) - wanted
        # A space that was put before the text is in the first token.
        led = (excess == 1) & (counts[starts] > 0)
        counts[starts[led]] -= 1
        self._recount(texts, encoded, filled[(excess != 0) & ~led].tolist(), counts)
        return counts

    @cached_property
    def _library(self) -> tokenizers.Tokenizer:
        return tokenizers.Tokenizer.from_str(self._description or "")

    def _recount(
        self, texts: Sequence[str], encoded: Ids, indices: Sequence[int], counts: Counts
    ) -> None:
        """Count the tokens of some texts by where the library finds them."""
        chosen = [texts[index] for index in indices]
        encodings = self._library.encode_batch(chosen, add_special_tokens=False)
        for index, text, encoding in zip(indices, chosen, encodings, strict=True):
            start, stop = encoded.offsets[index], encoded.offsets[index + 1]
            ids = encoded.ids[start:stop]
            places = byte_ends(text)
            spans = places[_flat(encoding.offsets).reshape(-1, 2)]
            if len(spans) != len(ids):
                raise JaxLMError(
                    f"the tokenizers library cuts {text[:40]!r} otherwise than the encoder that "
                    "was chosen; encode with tokenizers instead"
                )
            special = self._is_special(ids, spans)
            counts[start:stop] = shared_out(
                spans, self._byte_lengths[ids], special, int(places[-1])
            )

    def _is_special(
        self, ids: Counts, spans: Int[np.ndarray, "tokens 2"]
    ) -> Bool[np.ndarray, "tokens"]:
        """Which tokens were found in the text by their names; an unknown character was not."""
        if not self._parse_special:
            return np.zeros(len(ids), np.bool_)
        names = self._special_bytes[ids]
        by_name = (ids != self._unknown) | (spans[:, 1] - spans[:, 0] == names)
        return np.asarray((names > 0) & by_name)


def _flat(pairs: Sequence[tuple[int, int]]) -> Int[np.ndarray, "numbers"]:
    return np.fromiter(chain.from_iterable(pairs), np.int64, 2 * len(pairs))


def byte_ends(text: str) -> Int[np.ndarray, "characters_plus_one"]:
    """UTF-8 bytes before each character of a text, and of the whole."""
    codes = np.frombuffer(text.encode("utf-32-le"), "<u4")
    sizes = 1 + (codes > 0x7F).astype(np.int64) + (codes > 0x7FF) + (codes > 0xFFFF)
    return np.concatenate([[0], np.cumsum(sizes)])


def shared_out(
    spans: Int[np.ndarray, "tokens 2"],
    spelled: Counts,
    special: Bool[np.ndarray, "tokens"],
    num_bytes: int,
) -> Counts:
    """Share a text's bytes out among its tokens.

    Args:
        spans: first byte, and the one after the last, of what each token came from.
        spelled: bytes each token spells; several that came from one character share its bytes so
            where that is right, as the three bytes of a Korean syllable do.
        special: tokens that stand for no text; their own span counts for nobody.
        num_bytes: of the text.
    """
    ends = np.maximum.accumulate(spans[:, 1])
    ends[-1] = num_bytes if not special[-1] else ends[-1]
    counts = np.diff(ends, prepend=0)
    own = np.where(special, spans[:, 1] - spans[:, 0], 0)
    before = np.where(special, counts - own, 0)
    counts[special] = 0
    counts[:-1] += np.where(special[:-1], 0, np.maximum(before[1:], 0))
    group = np.cumsum(np.diff(ends, prepend=-1) > 0)
    same = np.bincount(group, counts) == np.bincount(group, spelled)
    return np.where(same[group] & ~special, spelled, counts).astype(np.int32)

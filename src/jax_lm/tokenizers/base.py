"""Text <-> ids: the one Protocol every tokenizer satisfies."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Int


class Encoded(NamedTuple):
    """Ids of many texts in one flat array; text i is ``ids[offsets[i]:offsets[i + 1]]``."""

    ids: Int[np.ndarray, "tokens"]
    """int32."""
    offsets: Int[np.ndarray, "texts_plus_one"]
    """int64, starting with 0."""
    num_bytes: Int[np.ndarray, "tokens"]
    """UTF-8 bytes of the text that each token stands for (int32): those of a text's tokens sum to
    the text's own, also where a normalizer changes what is spelled."""


class Tokenizer(Protocol):
    """A cut of text into ids; no special token is ever added, or found unless asked for."""

    @property
    def vocab_size(self) -> int:
        """Number of ids, special ones included."""
        ...

    @property
    def bos_id(self) -> int | None:
        """Id of the beginning-of-sequence token, if there is one."""
        ...

    @property
    def eos_id(self) -> int | None:
        """Id of the end-of-sequence token, if there is one."""
        ...

    @property
    def pad_id(self) -> int | None:
        """Id of the padding token, if there is one."""
        ...

    @property
    def mask_id(self) -> int | None:
        """Id of the token that hides another, if there is one."""
        ...

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that spell no text."""
        ...

    def encode_batch(self, texts: Sequence[str], *, parse_special: bool = False) -> Encoded:
        """Ids of each text; a string that looks like a special token is ordinary text.

        Args:
            texts: what to cut.
            parse_special: strings that look like special tokens are those tokens, spelling 0 bytes.

        Raises:
            JaxLMError: a text has a character that the vocabulary cannot spell.
        """
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text the ids spell; special ids spell nothing, incomplete UTF-8 gives U+FFFD."""
        ...

    def token_byte_lengths(self) -> Int[np.ndarray, "vocab"]:
        """UTF-8 bytes each id spells, 0 for special ids (int32)."""
        ...

    def token_text(self, token_id: int) -> str:
        """One token as a person would read it, with unprintable bytes escaped."""
        ...

    def fingerprint(self) -> str:
        """Hex sha256 of all that decides how text is cut, and which ids begin, end and pad it."""
        ...

    def save(self, directory: Path) -> None:
        """Write files from which this project and ``transformers.AutoTokenizer`` load it."""
        ...


def start_id(tokenizer: Tokenizer) -> int | None:
    """What the first token of a document is conditioned on: BOS, else EOS, else nothing."""
    return tokenizer.bos_id if tokenizer.bos_id is not None else tokenizer.eos_id


def special_names(tokenizer: Tokenizer) -> dict[str, int]:
    """Id of each special token, by how it is written."""
    return {tokenizer.token_text(token_id): token_id for token_id in sorted(tokenizer.special_ids)}

"""What an encoder does: the one Protocol, and the names of those there are."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np
from jaxtyping import Int

from jax_lm.errors import JaxLMError

Engine = Literal["tokenizers", "gigatoken", "fastokens"]
FAST: tuple[Engine, ...] = ("gigatoken", "fastokens")
"""In the order in which they are tried."""


class Ids(NamedTuple):
    """Ids of many texts in one flat array; text i is ``ids[offsets[i]:offsets[i + 1]]``."""

    ids: Int[np.ndarray, "tokens"]
    """int32."""
    offsets: Int[np.ndarray, "texts_plus_one"]
    """int64, starting with 0."""


class Encoder(Protocol):
    """Cuts texts by a ``tokenizer.json``; built once a process, never pickled."""

    @property
    def name(self) -> Engine:
        """Which it is."""
        ...

    def encode(self, texts: Sequence[str]) -> Ids:
        """Ids of each text.

        Raises:
            JaxLMError: a text is not Unicode.
        """
        ...


def refuse_lone_surrogates(texts: Sequence[str]) -> None:
    """Raise a JaxLMError that says which text has half a surrogate pair, if one has."""
    for index, text in enumerate(texts):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            code = ord(text[error.start])
            raise JaxLMError(
                f"text {index} is not Unicode: half a surrogate pair, U+{code:04X}, at character "
                f"{error.start}; it should be read as UTF-8"
            ) from error

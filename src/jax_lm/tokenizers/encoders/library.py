"""The ``tokenizers`` library itself: what every other encoder has to equal."""

from collections.abc import Sequence

import numpy as np
import tokenizers

from jax_lm.tokenizers.encoders.base import Engine, Ids, refuse_lone_surrogates


class LibraryEncoder:
    """Encodes by the reference implementation."""

    name: Engine = "tokenizers"

    def __init__(self, description: str):
        """Args: the text of a ``tokenizer.json``."""
        self.library = tokenizers.Tokenizer.from_str(description)

    def encode(self, texts: Sequence[str]) -> Ids:
        """Ids of each text.

        Raises:
            JaxLMError: a text is not Unicode.
        """
        try:
            encodings = self.library.encode_batch_fast(texts, add_special_tokens=False)
        except TypeError:  # all the library says of text that is not Unicode
            refuse_lone_surrogates(texts)
            raise
        parts = [np.array(encoding.ids, np.int32) for encoding in encodings]
        ids = np.concatenate([np.empty(0, np.int32), *parts])
        return Ids(ids, np.cumsum([0, *map(len, parts)], dtype=np.int64))

"""fastokens (Apache-2.0): takes some vocabularies that gigatoken does not."""

from collections.abc import Sequence

import numpy as np

from jax_lm.tokenizers.encoders.base import Engine, Ids, refuse_lone_surrogates


class FastokensEncoder:
    """Encodes by fastokens."""

    name: Engine = "fastokens"

    def __init__(self, description: str):
        """Args: the text of a ``tokenizer.json``."""
        from fastokens import Tokenizer

        self._tokenizer = Tokenizer.from_json_str(description)

    def encode(self, texts: Sequence[str]) -> Ids:
        """Ids of each text.

        Raises:
            JaxLMError: a text is not Unicode.
        """
        try:
            ids, offsets = self._tokenizer.encode_batch_flat(list(texts))
        except UnicodeEncodeError:
            refuse_lone_surrogates(texts)
            raise
        return Ids(np.frombuffer(ids, np.int32), np.frombuffer(offsets, np.int64))

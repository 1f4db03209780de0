"""A lossless tokenizer of the ``tokenizers`` library, behind the project's Protocol."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from jaxtyping import Int

from jax_lm.errors import JaxLMError
from jax_lm.tokenizers.base import Encoded
from jax_lm.tokenizers.description import kind_of, parse_description
from jax_lm.tokenizers.encoding import CharacterTable, encode_with_library
from jax_lm.tokenizers.files import read_files, write_files
from jax_lm.tokenizers.special import SpecialTokens
from jax_lm.tokenizers.spelling import byte_level_spelling, character_spelling, readable


def load_tokenizer(place: str | Path) -> "PretrainedTokenizer":
    """Load a directory that holds ``tokenizer.json``, or such a file.

    Raises:
        JaxLMError: it is missing, broken, or of a kind that could lose text.
    """
    files = read_files(Path(place))
    return PretrainedTokenizer(files.description, files.special, files.settings, files.where)


class PretrainedTokenizer:
    """A byte-level BPE or a character vocabulary, as ``tokenizer.json`` describes it."""

    def __init__(
        self,
        description: str,
        special: SpecialTokens | None = None,
        settings: Mapping[str, Any] | None = None,
        where: str = "tokenizer.json",
    ):
        """Build from the text of a ``tokenizer.json``.

        Args:
            description: the text.
            special: which token plays which part; None: by the names of the special tokens.
            settings: further entries for ``tokenizer_config.json``.
            where: where the text came from, for messages.

        Raises:
            JaxLMError: the text is broken, or of a kind that could lose text.
        """
        parsed = parse_description(description, where)
        self.kind = kind_of(parsed, where)
        self._library = _build(parsed, special, where)
        added = self._library.get_added_tokens_decoder().items()
        self._special_tokens = {i: token.content for i, token in added if token.special}
        names = list(self._special_tokens.values())
        self.special = SpecialTokens.by_convention(names) if special is None else special
        self.settings = dict(settings or {})

    def __reduce__(self) -> tuple[Any, ...]:
        # The library's own pickling forgets that special tokens are ordinary text.
        return type(self), (self._library.to_str(), self.special, self.settings)

    @cached_property
    def vocab_size(self) -> int:
        """Number of ids, special ones included."""
        return max(self._vocabulary.values(), default=-1) + 1

    @property
    def bos_id(self) -> int | None:
        """Id of the beginning-of-sequence token, if there is one."""
        return self._id(self.special.bos)

    @property
    def eos_id(self) -> int | None:
        """Id of the end-of-sequence token, if there is one."""
        return self._id(self.special.eos)

    @property
    def pad_id(self) -> int | None:
        """Id of the padding token, if there is one."""
        return self._id(self.special.pad)

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Ids that spell no text."""
        return frozenset(self._special_tokens)

    def encode_batch(self, texts: Sequence[str], *, parse_special: bool = False) -> Encoded:
        """Ids of each text; a string that looks like a special token is ordinary text.

        Args:
            texts: what to cut.
            parse_special: strings that look like special tokens are those tokens.

        Raises:
            JaxLMError: a text has a character that the vocabulary cannot spell.
        """
        if self.kind == "characters":
            return self._characters.encode(texts)
        library = self._parsing_library if parse_special else self._library
        return encode_with_library(library, texts, self._byte_lengths)

    def decode(self, ids: Sequence[int]) -> str:
        """The text the ids spell; special ids spell nothing, incomplete UTF-8 gives U+FFFD.

        Ids above the vocabulary, which a model with a padded vocabulary may give, spell nothing.
        """
        text: str = self._library.decode(np.asarray(ids, np.int64).tolist())
        return text

    def token_byte_lengths(self) -> Int[np.ndarray, "vocab"]:
        """UTF-8 bytes each id spells, 0 for special ids (int32)."""
        return self._byte_lengths

    @cached_property
    def _parsing_library(self) -> tokenizers.Tokenizer:
        library = tokenizers.Tokenizer.from_str(self._library.to_str())
        library.encode_special_tokens = False
        return library

    @cached_property
    def _byte_lengths(self) -> Int[np.ndarray, "vocab"]:
        lengths = np.zeros(self.vocab_size, np.int32)
        for token, token_id in self._vocabulary.items():
            if token_id not in self.special_ids:
                lengths[token_id] = len(self._spelling(token))
        return lengths

    def token_text(self, token_id: int) -> str:
        """One token as a person would read it, with unprintable bytes escaped.

        Raises:
            JaxLMError: there is no such id.
        """
        token = self._library.id_to_token(token_id) if token_id >= 0 else None
        if token is None:
            raise JaxLMError(f"no token has id {token_id}; ids go from 0 to {self.vocab_size - 1}")
        return token if token_id in self.special_ids else readable(self._spelling(token))

    def fingerprint(self) -> str:
        """Hex sha256 of the description in canonical JSON."""
        description = json.loads(self._library.to_str())
        canonical = json.dumps(description, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def save(self, directory: Path) -> None:
        """Write files from which this project and ``transformers.AutoTokenizer`` load it."""
        description = self._library.to_str(pretty=True)
        write_files(Path(directory), description, self.special, self.settings)

    @cached_property
    def _vocabulary(self) -> dict[str, int]:
        vocabulary: dict[str, int] = self._library.get_vocab(with_added_tokens=True)
        return vocabulary

    @cached_property
    def _characters(self) -> CharacterTable:
        items = self._vocabulary.items()
        characters = {token: i for token, i in items if i not in self.special_ids}
        return CharacterTable(characters, self._byte_lengths)

    def _spelling(self, token: str) -> bytes:
        characters = self.kind == "characters"
        return character_spelling(token) if characters else byte_level_spelling(token)

    def _id(self, token: str | None) -> int | None:
        return None if token is None else self._library.token_to_id(token)


def _build(
    description: dict[str, Any], special: SpecialTokens | None, where: str
) -> tokenizers.Tokenizer:
    try:
        library = tokenizers.Tokenizer.from_str(json.dumps(description))
    except Exception as error:  # the library raises nothing narrower
        raise JaxLMError(f"{where}: the tokenizers library refuses it ({error})") from error
    added = library.get_added_tokens_decoder().values()
    already = {token.content for token in added if token.special}
    for name, token in ({} if special is None else special.config()).items():
        if library.token_to_id(token) is None:
            raise JaxLMError(
                f"{where}: {name} {token!r} is not in the vocabulary; mend either file"
            )
        if token not in already:  # adding it again would change how it is normalised
            library.add_special_tokens([token])
    library.encode_special_tokens = True
    return library

"""A tokenizer of the ``tokenizers`` library, behind the project's Protocol."""

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
from jax_lm.tokenizers.byte_counts import ByteCounts
from jax_lm.tokenizers.character_table import CharacterTable
from jax_lm.tokenizers.description import (
    changes_text,
    for_ordinary_text,
    kind_of,
    parse_description,
)
from jax_lm.tokenizers.encoders.base import Encoder, Engine
from jax_lm.tokenizers.encoders.building import build_encoder
from jax_lm.tokenizers.finding import find_tokenizer
from jax_lm.tokenizers.special import SpecialTokens
from jax_lm.tokenizers.spelling import SPELLINGS, readable
from jax_lm.tokenizers.writing import write_files


def load_tokenizer(place: str | Path, engine: Engine = "tokenizers") -> "PretrainedTokenizer":
    """Load a tokenizer from wherever it lies.

    Args:
        place: a directory or a file (``tokenizer.json``, a vocabulary beside its merges, a
            SentencePiece ``.model``), or a name on the Hugging Face hub.
        engine: the encoder that cuts text; ``choose_engine`` says which can.

    Raises:
        JaxLMError: it is missing, broken, or of a kind that could lose text unseen.
    """
    found = find_tokenizer(place)
    return PretrainedTokenizer(
        found.description, found.special, found.settings, found.where, engine, found.attachments
    )


class PretrainedTokenizer:
    """A byte-level BPE, a SentencePiece model or characters, as ``tokenizer.json`` has it."""

    def __init__(
        self,
        description: str,
        special: SpecialTokens | None = None,
        settings: Mapping[str, Any] | None = None,
        where: str = "tokenizer.json",
        engine: Engine = "tokenizers",
        attachments: Mapping[str, bytes] | None = None,
    ):
        """Build from the text of a ``tokenizer.json``.

        Args:
            description: the text.
            special: which token plays which part; None: by the names of the special tokens.
            settings: further entries for ``tokenizer_config.json``.
            where: where the text came from, for messages.
            engine: the encoder that cuts text, built when first needed.
            attachments: other files to save beside it, by name.

        Raises:
            JaxLMError: the text is broken, or of a kind that could lose text unseen.
        """
        parsed = parse_description(description, where)
        self.kind = kind_of(parsed, where)
        self._library = _build(parsed, special, where)
        added = self._library.get_added_tokens_decoder().items()
        self._special_tokens = {i: token.content for i, token in added if token.special}
        names = list(self._special_tokens.values())
        self.special = SpecialTokens.by_convention(names) if special is None else special
        self.settings = dict(settings or {})
        self.attachments = dict(attachments or {})
        self.engine = engine
        self._encoders: dict[bool, Encoder] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # Encoders cannot be pickled, and are built again where they are needed.
        description = self._library.to_str()
        where = "tokenizer.json"
        given = (self.special, self.settings, where, self.engine, self.attachments)
        return type(self), (description, *given)

    def use(self, engine: Engine) -> "PretrainedTokenizer":
        """The same tokenizer, encoding by another program."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, engine=engine, _encoders={})
        return other

    @cached_property
    def description(self) -> str:
        """The text of a ``tokenizer.json``."""
        text: str = self._library.to_str()
        return text

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

    @property
    def mask_id(self) -> int | None:
        """Id of the token that hides another, if there is one."""
        return self._id(self.special.mask)

    @property
    def unk_id(self) -> int | None:
        """Id that stands for a character outside the vocabulary, if there is one."""
        return self._id(self.special.unk)

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
        encoded = self._encoder(parse_special).encode(texts)
        counts = self._byte_counts[parse_special].of(texts, encoded)
        return Encoded(encoded.ids, encoded.offsets, counts)

    def decode(self, ids: Sequence[int]) -> str:
        """The text the ids spell; special ids spell nothing, incomplete UTF-8 gives U+FFFD.

        Ids above the vocabulary, which a model with a padded vocabulary may give, spell nothing.
        """
        text: str = self._library.decode(np.asarray(ids, np.int64).tolist())
        return text

    def token_byte_lengths(self) -> Int[np.ndarray, "vocab"]:
        """UTF-8 bytes each id spells, 0 for special ids (int32)."""
        return self._byte_lengths

    def text_description(self, parse_special: bool) -> str:
        """A ``tokenizer.json`` that finds special tokens in text, or takes them for text."""
        return self.description if parse_special else self._ordinary_description

    @cached_property
    def _ordinary_description(self) -> str:
        return json.dumps(for_ordinary_text(json.loads(self.description)), ensure_ascii=False)

    def _encoder(self, parse_special: bool) -> Encoder:
        if parse_special not in self._encoders:
            description = self.text_description(parse_special)
            self._encoders[parse_special] = build_encoder(self.engine, description)
        return self._encoders[parse_special]

    @cached_property
    def _byte_counts(self) -> dict[bool, ByteCounts]:
        changes = changes_text(json.loads(self.description))
        return {
            parse: ByteCounts(
                self._byte_lengths,
                self._special_tokens,
                unknown=self.unk_id,
                parse_special=parse,
                description=self.text_description(parse) if changes else None,
            )
            for parse in (False, True)
        }

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
        """Hex sha256 of the description in canonical JSON, and of which token plays which part."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        description = json.loads(self.description)
        canonical = json.dumps(description, sort_keys=True, separators=(",", ":"))
        parts = json.dumps(self.special.config(), sort_keys=True)
        return hashlib.sha256(f"{canonical}\n{parts}".encode()).hexdigest()

    def save(self, directory: Path) -> None:
        """Write files from which this project and ``transformers.AutoTokenizer`` load it."""
        description = self._library.to_str(pretty=True)
        write_files(Path(directory), description, self.special, self.settings, self.attachments)

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
        return SPELLINGS[self.kind](token)

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
    return library

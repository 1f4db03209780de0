"""Choose the fastest encoder whose ids are those of the ``tokenizers`` library."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from jax_lm.errors import JaxLMError
from jax_lm.tokenizers.encoders.base import FAST, Encoder, Engine
from jax_lm.tokenizers.encoders.building import (
    Refused,
    build_encoder,
    installed_version,
)
from jax_lm.tokenizers.encoders.library import LibraryEncoder
from jax_lm.tokenizers.pretrained import PretrainedTokenizer

Wanted = Literal["auto", "tokenizers", "gigatoken", "fastokens"]

MAX_SAMPLE_BYTES = 2_000_000
"""The library takes half a second for so much."""
AWKWARD = (
    "",
    " ",
    "  two  spaces  \n\n\n\t\ttabs\r\nand\rreturns ",
    "a" * 3000,
    "\x00 \x7f\x85\u2028\ufeff\ue000\U0010ffff",
    "can't WE'LL I'Ve 1234567 3.14 ½①",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1f3\U0001f1f4 e\u0301 \u1112\u1161\u11ab",
    "blåbærsyltetøy 안녕하세요 नमस्ते 你好，世界！ สวัสดี שלום مرحبا",
    "▁▁ <0x41> <s>[INST] <|endoftext|></s><unk>",
)
"""Texts on which programs that agree on prose may differ."""


class EngineChoice(NamedTuple):
    """Which program encodes, and why."""

    name: Engine
    version: str
    reason: str

    def sentence(self) -> str:
        """The choice as a person is told it."""
        return f"encoding with {self.name} {self.version}: {self.reason}"


def choose_engine(
    tokenizer: PretrainedTokenizer, sample_texts: Iterable[str], wanted: Wanted = "auto"
) -> EngineChoice:
    """The fastest program that takes the tokenizer and gives the library's ids.

    Args:
        tokenizer: what it has to encode by.
        sample_texts: of the corpus that is to be encoded; the first 2 MB are compared, and texts
            that are known to be awkward, with and without special tokens being found in them.
        wanted: ``auto``, or the one that shall be used or nothing.

    Raises:
        JaxLMError: the one that is wanted is not installed, does not take the tokenizer, or gives
            other ids; or a sample text is not Unicode.
    """
    if wanted == "tokenizers":
        return EngineChoice("tokenizers", _version("tokenizers"), "as asked for")
    if tokenizer.kind == "characters":
        if wanted == "auto":
            return EngineChoice("tokenizers", _version("tokenizers"), "characters need no search")
        raise JaxLMError(f"{wanted} does not cut characters; leave the choice to auto")
    comparison = _Comparison(tokenizer, list(_first_bytes(sample_texts)))
    reasons = []
    for name in FAST if wanted == "auto" else (wanted,):
        if wanted == "auto" and installed_version(name) is None:
            reasons.append(f"{name} is not installed (pip install 'jax-lm[fast]')")
            continue
        try:
            comparison.check(name)
        except (Refused, Differs) as error:
            if wanted != "auto":
                raise
            reasons.append(str(error))
            continue
        return EngineChoice(name, _version(name), comparison.verdict)
    return EngineChoice("tokenizers", _version("tokenizers"), "; ".join(reasons))


class Differs(JaxLMError):
    """A program gives other ids than the library."""


class _Comparison:
    """The library's ids of some texts, computed once, and whether another's are the same."""

    def __init__(self, tokenizer: PretrainedTokenizer, sample: Sequence[str]):
        awkward = _awkward(tokenizer)
        # Where special tokens are found, what lies between them is cut as without them.
        self._texts = {False: [*sample, *awkward], True: awkward}
        self._descriptions = {parse: tokenizer.text_description(parse) for parse in self._texts}
        self._expected = {
            parse: _ids(LibraryEncoder(self._descriptions[parse]), texts)
            for parse, texts in self._texts.items()
        }
        size = sum(len(text.encode("utf-8")) for text in sample)
        self.verdict = f"its ids equal tokenizers' on {len(sample):,} texts ({size / 1e6:.1f} MB)"

    def check(self, name: Engine) -> None:
        """Raise Refused or Differs unless the ids are the same."""
        for parse, texts in self._texts.items():
            found = _ids(build_encoder(name, self._descriptions[parse]), texts)
            for text, ours, theirs in zip(texts, found, self._expected[parse], strict=True):
                if not np.array_equal(ours, theirs):
                    raise Differs(f"{name} cuts {text[:40]!r} otherwise than tokenizers does")


def _ids(encoder: Encoder, texts: Sequence[str]) -> list[np.ndarray]:
    ids, offsets = encoder.encode(texts)
    return np.split(ids, offsets[1:-1])


def _first_bytes(texts: Iterable[str]) -> Iterator[str]:
    room = MAX_SAMPLE_BYTES
    for text in texts:
        yield text[:room]
        room -= len(text.encode("utf-8", "replace"))
        if room <= 0:
            return


def _awkward(tokenizer: PretrainedTokenizer) -> list[str]:
    special = [tokenizer.token_text(i) for i in sorted(tokenizer.special_ids)[:100]]
    return [*AWKWARD, *(f"x {token}{token}y\n" for token in special), " ".join(special)]


def _version(name: Engine) -> str:
    return installed_version(name) or "?"

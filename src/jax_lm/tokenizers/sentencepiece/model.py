"""A SentencePiece ``.model`` file: its pieces and settings (``sentencepiece_model.proto``)."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, NamedTuple

from jax_lm.errors import JaxLMError
from jax_lm.tokenizers.sentencepiece.wire import integer, raw, read_fields, real, text

Algorithm = Literal["unigram", "bpe", "word", "char"]
ALGORITHMS: dict[int, Algorithm] = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}


class PieceKind(IntEnum):
    """What a piece is for."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


class Piece(NamedTuple):
    """One entry of the vocabulary; its id is its place."""

    text: str
    score: float
    kind: PieceKind


@dataclass(frozen=True, kw_only=True)
class SentencePieceModel:
    """What decides how such a model cuts text."""

    pieces: tuple[Piece, ...]
    algorithm: Algorithm
    byte_fallback: bool
    """Characters outside the vocabulary are spelled in bytes."""
    space_after_word: bool
    """The mark of a space ends a piece instead of starting it."""
    character_map: bytes
    """Compiled rules of Unicode normalization, empty for none."""
    add_dummy_prefix: bool
    """A space is put before the text."""
    remove_extra_whitespaces: bool
    """Spaces at either end go, runs of spaces become one."""
    escape_whitespaces: bool
    """A space is written as U+2581 in pieces."""
    bos: str | None
    eos: str | None
    pad: str | None
    unk: str | None

    def of_kind(self, kind: PieceKind) -> list[str]:
        """The pieces of a kind, in the order of their ids."""
        return [piece.text for piece in self.pieces if piece.kind == kind]


def read_model(data: bytes, where: str) -> SentencePieceModel:
    """Read the bytes of a ``.model`` file.

    Raises:
        JaxLMError: they are not one, or of an unknown kind.
    """
    try:
        model = _read(data)
    except (ValueError, KeyError) as error:
        raise JaxLMError(f"{where}: not a SentencePiece model ({error})") from error
    if not model.pieces:
        raise JaxLMError(f"{where}: a SentencePiece model without pieces; train it again")
    return model


def _read(data: bytes) -> SentencePieceModel:
    fields = read_fields(data)
    pieces = tuple(_piece(value) for value in fields.get(1, ()))
    trainer, normalizer = read_fields(raw(fields, 2)), read_fields(raw(fields, 3))
    controls = {piece.text for piece in pieces if piece.kind == PieceKind.CONTROL}

    def part(number: int, default: str) -> str | None:
        name = text(trainer, number, default)
        return name if name in controls else None

    return SentencePieceModel(
        pieces=pieces,
        algorithm=ALGORITHMS[integer(trainer, 3, 1)],
        byte_fallback=bool(integer(trainer, 35)),
        space_after_word=bool(integer(trainer, 24)),
        character_map=raw(normalizer, 2),
        add_dummy_prefix=bool(integer(normalizer, 3, 1)),
        remove_extra_whitespaces=bool(integer(normalizer, 4, 1)),
        escape_whitespaces=bool(integer(normalizer, 5, 1)),
        bos=part(46, "<s>"),
        eos=part(47, "</s>"),
        pad=part(48, "<pad>"),
        unk=next((piece.text for piece in pieces if piece.kind == PieceKind.UNKNOWN), None),
    )


def _piece(value: int | bytes) -> Piece:
    if not isinstance(value, bytes):
        raise ValueError("a piece is a number")
    fields = read_fields(value)
    return Piece(text(fields, 1), real(fields, 2), PieceKind(integer(fields, 3, 1)))

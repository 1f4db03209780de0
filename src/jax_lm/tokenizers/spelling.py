"""What each token spells: the byte-level alphabet, and bytes as people read them."""

import re


def byte_alphabet() -> dict[str, int]:
    """The printable character that stands for each byte in a byte-level vocabulary.

    Bytes that are printable in Latin-1 stand for themselves; the others are moved, in order, to
    U+0100 and above (``bytes_to_unicode`` of GPT-2's encoder.py).
    """
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [byte for byte in range(256) if byte not in set(kept)]
    alphabet = {chr(byte): byte for byte in kept}
    return alphabet | {chr(256 + index): byte for index, byte in enumerate(moved)}


BYTES = byte_alphabet()
_ALPHABET = frozenset(BYTES)
BYTE_PIECE = re.compile("<0x([0-9A-F]{2})>")
"""How SentencePiece names the byte of a character outside its vocabulary."""
NEVER_IN_UTF8 = {0xC0, 0xC1, *range(0xF5, 0x100)}
"""A vocabulary may lack these: no text has them."""


def byte_level_spelling(token: str) -> bytes:
    """The bytes a token of a byte-level vocabulary spells, as the ``tokenizers`` decoder has it."""
    if _ALPHABET.issuperset(token):
        return bytes(BYTES[character] for character in token)
    return token.encode("utf-8")  # an added token is written as it reads


def character_spelling(token: str) -> bytes:
    """The bytes a token of a character vocabulary spells."""
    return token.encode("utf-8")


def sentencepiece_spelling(token: str) -> bytes:
    """The bytes a piece of a SentencePiece vocabulary spells, U+2581 being a space."""
    byte = BYTE_PIECE.fullmatch(token)
    return bytes([int(byte[1], 16)]) if byte else token.replace("\u2581", " ").encode("utf-8")


SPELLINGS = {
    "byte-level-bpe": byte_level_spelling,
    "sentencepiece-bpe": sentencepiece_spelling,
    "sentencepiece-unigram": sentencepiece_spelling,
    "characters": character_spelling,
}
"""What a token spells, by the kind of its vocabulary."""


def readable(spelling: bytes) -> str:
    """Bytes as a person would read them: what is not printable text is escaped."""
    text = spelling.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)

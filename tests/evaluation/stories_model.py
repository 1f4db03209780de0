"""A trained LLaMA with its own SentencePiece vocabulary, as a directory."""

import struct
from pathlib import Path

from jax_lm.huggingface.directory import load_model
from jax_lm.huggingface.directory import write_directory as export
from jax_lm.models.llama import Llama
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.pretrained import load_tokenizer
from tests.parity.llama2c_files import read_tokenizer, write_directory

VOCAB_SIZE, BOS, EOS, FIRST_BYTE, BYTES = 512, 1, 2, 3, 256
UNKNOWN, CONTROL, NORMAL, BYTE = 2, 3, 1, 6
BPE = 2


def write_stories(weights: Path, folder: Path) -> tuple[Llama, Tokenizer]:
    """Write the model to ``folder/stories`` with its vocabulary; gives both."""
    (folder / "plain").mkdir()
    write_directory(weights / "stories260K.bin", folder / "plain")
    (folder / "tokenizer.model").write_bytes(sentencepiece_file(weights / "tok512.bin"))
    model, tokenizer = load_model(folder / "plain"), load_tokenizer(folder / "tokenizer.model")
    export(model, tokenizer, folder / "stories", card="# stories260K")
    return model, tokenizer


def sentencepiece_file(path: Path) -> bytes:
    """The vocabulary of llama2.c as SentencePiece's own file: BPE with bytes."""
    pieces, scores = read_tokenizer(path, VOCAB_SIZE)
    names = {0: "<unk>", BOS: "<s>", EOS: "</s>"}
    entries = b""
    for number, (piece, score) in enumerate(zip(pieces, scores, strict=True)):
        name = names.get(number) or piece.decode().replace(" ", "▁")
        kind = NORMAL
        if number in names:
            kind = CONTROL if number else UNKNOWN
        elif number < FIRST_BYTE + BYTES:
            kind = BYTE
        entry = field(1, name.encode()) + b"\x15" + struct.pack("<f", score) + field(3, kind)
        entries += field(1, entry)
    trainer = field(3, BPE) + field(4, VOCAB_SIZE) + field(35, 1)
    ids = b"".join(field(number, value) for number, value in ((40, 0), (41, BOS), (42, EOS)))
    normalizer = field(1, b"identity") + field(3, 1) + field(4, 0) + field(5, 1)
    return entries + field(2, trainer + ids) + field(3, normalizer)


def field(number: int, value: int | bytes) -> bytes:
    """One field of a protocol buffer: bytes, or a number."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def varint(value: int) -> bytes:
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])

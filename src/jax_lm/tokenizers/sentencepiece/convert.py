"""A SentencePiece model as a ``tokenizer.json``, so that one library encodes every kind.

The same ids as ``sentencepiece`` itself, but for three things that ``tokenizers`` cannot say:
pairs whose merge gives the same piece have an order of their own here, where SentencePiece takes
the leftmost; sums of a Unigram model's scores are rounded in float64 instead of float32, so exact
ties may fall otherwise; character rules that reach over the border of a grapheme are not found.
"""

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

from jax_lm.errors import JaxLMError
from jax_lm.tokenizers.sentencepiece.model import PieceKind, SentencePieceModel
from jax_lm.tokenizers.special import SpecialTokens

SPACE = "\u2581"
"""Stands for a space in pieces."""
BYTE_PIECE = "<0x[0-9A-F]{2}>"
SPECIAL = (PieceKind.CONTROL, PieceKind.UNKNOWN)


def to_description(model: SentencePieceModel, where: str) -> str:
    """The text of a ``tokenizer.json`` that cuts as the model does.

    Raises:
        JaxLMError: the model has a feature that cannot be said there.
    """
    _check(model, where)
    return json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": list(_added_tokens(model)),
            "normalizer": {"type": "Sequence", "normalizers": list(_normalizers(model))},
            "pre_tokenizer": _pre_tokenizer(model),
            "post_processor": None,
            "decoder": {"type": "Sequence", "decoders": list(_decoders(model))},
            "model": _bpe(model) if model.algorithm == "bpe" else _unigram(model),
        },
        ensure_ascii=False,
    )


def special_tokens(model: SentencePieceModel) -> SpecialTokens:
    """Which control symbol plays which part."""
    return SpecialTokens(bos=model.bos, eos=model.eos, pad=model.pad, unk=model.unk)


def _check(model: SentencePieceModel, where: str) -> None:
    refused = {
        f"of type {model.algorithm}": model.algorithm not in ("bpe", "unigram"),
        "with the space after the word": model.space_after_word,
        "that keeps spaces as they are": not model.escape_whitespaces,
        "with pieces marked unused": bool(model.of_kind(PieceKind.UNUSED)),
        "without an unknown piece": model.unk is None,
    }
    for what, is_so in refused.items():
        if is_so:
            raise JaxLMError(
                f"{where}: a SentencePiece model {what} is not read here; expected a BPE or "
                "Unigram model with SentencePiece's usual settings"
            )


def _added_tokens(model: SentencePieceModel) -> Iterator[dict[str, Any]]:
    for index, piece in enumerate(model.pieces):
        if piece.kind in SPECIAL:
            yield {
                "id": index,
                "content": piece.text,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }


def _normalizers(model: SentencePieceModel) -> Iterator[dict[str, Any]]:
    if model.character_map:
        compiled = base64.b64encode(model.character_map).decode()
        yield {"type": "Precompiled", "precompiled_charsmap": compiled}
    if model.remove_extra_whitespaces:
        yield {"type": "Replace", "pattern": {"Regex": rf"\A +|[ {SPACE}]+\z"}, "content": ""}
        yield {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    if model.add_dummy_prefix:
        yield {"type": "Prepend", "prepend": SPACE}
    yield {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}


def _pre_tokenizer(model: SentencePieceModel) -> dict[str, Any] | None:
    """Cuts that no piece reaches over: they change no id, and words once cut are remembered."""
    cuts = [_split(symbols, "Isolated") for symbols in _user_defined(model)]
    if model.algorithm == "unigram":
        if model.byte_fallback:  # text that reads like a byte's piece is no byte
            cuts.append(_split(f"(?<=<)(?={BYTE_PIECE[1:]})", "Isolated"))
        if _pieces_start_at_spaces(model):
            cuts.append(_split(SPACE, "MergedWithNext"))
    return {"type": "Sequence", "pretokenizers": cuts} if cuts else None


def _user_defined(model: SentencePieceModel) -> Iterator[str]:
    """One pattern of all symbols that are always pieces, the longest first."""
    symbols = sorted(model.of_kind(PieceKind.USER_DEFINED), key=len, reverse=True)
    if symbols:
        yield "|".join(re.escape(symbol.replace(" ", SPACE)) for symbol in symbols)


def _split(pattern: str, behavior: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": False}


def _pieces_start_at_spaces(model: SentencePieceModel) -> bool:
    pieces = model.of_kind(PieceKind.NORMAL)
    return SPACE in pieces and not any(SPACE in piece[1:] for piece in pieces)


def _decoders(model: SentencePieceModel) -> Iterator[dict[str, Any]]:
    yield {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
    if model.byte_fallback:
        yield {"type": "ByteFallback"}
    yield {"type": "Fuse"}
    if model.add_dummy_prefix:
        yield {"type": "Strip", "content": " ", "start": 1, "stop": 0}


def _unigram(model: SentencePieceModel) -> dict[str, Any]:
    unknown = next(i for i, p in enumerate(model.pieces) if p.kind == PieceKind.UNKNOWN)
    return {
        "type": "Unigram",
        "unk_id": unknown,
        "vocab": [[piece.text, piece.score] for piece in model.pieces],
        "byte_fallback": model.byte_fallback,
    }


def _bpe(model: SentencePieceModel) -> dict[str, Any]:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": model.unk,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": model.byte_fallback,
        "ignore_merges": bool(model.of_kind(PieceKind.USER_DEFINED)),
        "vocab": {piece.text: index for index, piece in enumerate(model.pieces)},
        "merges": [list(pair) for pair in merges_of(model)],
    }


def merges_of(model: SentencePieceModel) -> list[tuple[str, str]]:
    """Every pair of pieces whose join is a piece, that of the highest score first.

    The order of pairs that give the same piece is that of ``transformers``' converter.
    """
    normal = {p.text: i for i, p in enumerate(model.pieces) if p.kind == PieceKind.NORMAL}
    ranked: list[tuple[float, int, int, str, str]] = []
    for piece, index in normal.items():
        cuts = ((piece[:i], piece[i:]) for i in range(1, len(piece)))
        pairs = [pair for pair in cuts if pair[0] in normal and pair[1] in normal]
        pairs.sort(key=lambda pair: (normal[pair[0]], normal[pair[1]]))
        ranked.extend(
            (model.pieces[index].score, len(left), len(right), left, right) for left, right in pairs
        )
    ranked.sort(key=lambda entry: entry[:3], reverse=True)
    return [(left, right) for *_, left, right in ranked]

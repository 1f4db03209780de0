"""``tokenizer.json``: which kinds can be used here, and how text is kept from being special."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from jax_lm.errors import JaxLMError
from jax_lm.tokenizers.spelling import BYTES, NEVER_IN_UTF8

Kind = Literal["byte-level-bpe", "sentencepiece-bpe", "sentencepiece-unigram", "characters"]

EACH_CHARACTER = r"[\s\S]"
KINDS_READ = "byte-level BPE, SentencePiece's BPE and Unigram, and character vocabularies"
SPACE_MARK = "\u2581"
"""Stands for a space in SentencePiece's pieces."""


def parse_description(text: str, where: str) -> dict[str, Any]:
    """The description without what would lose or change text: truncation, padding, dropout.

    Raises:
        JaxLMError: the text is not JSON, or not an object with a model.
    """
    try:
        description = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise JaxLMError(f"{where}: broken JSON ({error}); expected a tokenizer.json") from error
    if not isinstance(description, dict) or not isinstance(description.get("model"), dict):
        raise JaxLMError(f"{where}: no `model` in it; expected the tokenizers library's format")
    model = description["model"]
    if model.get("dropout") is not None:
        model = {**model, "dropout": None}
    return {**description, "model": model, "truncation": None, "padding": None}


def kind_of(description: dict[str, Any], where: str) -> Kind:
    """The kind of a tokenizer.

    Raises:
        JaxLMError: it is of a kind that cannot be read, or could lose text.
    """
    model = description["model"].get("type")
    stages = [description.get("normalizer"), description.get("pre_tokenizer")]
    is_byte_level = "ByteLevel" in set(_types(stages)) & set(_types(description.get("decoder")))
    if model in ("BPE", None) and is_byte_level:
        _check_bytes(description["model"], where)
        return "byte-level-bpe"
    if model == "WordLevel" and _cuts_each_character(description):
        return "characters"
    if _marks_spaces(stages) and _spells_the_unknown(description["model"]):
        if model == "Unigram":
            return "sentencepiece-unigram"
        if model in ("BPE", None):
            return "sentencepiece-bpe"
    raise JaxLMError(f"{where}: a {model} model of a kind not read here; expected {KINDS_READ}")


def _check_bytes(model: dict[str, Any], where: str) -> None:
    vocabulary = model.get("vocab", {})
    needed = {character for character, byte in BYTES.items() if byte not in NEVER_IN_UTF8}
    missing = needed.difference(vocabulary)
    if missing:
        raise JaxLMError(
            f"{where}: {len(missing)} of 256 single bytes are not in the vocabulary, so some text "
            "would be lost; use a tokenizer with the full byte alphabet"
        )
    if model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
        raise JaxLMError(f"{where}: tokens with subword marks are not read; expected {KINDS_READ}")


def changes_text(description: dict[str, Any]) -> bool:
    """Whether what the tokens spell can differ from the text: a normalizer, or a space before."""
    if description.get("normalizer") is not None:
        return True
    types = list(_types(description.get("pre_tokenizer")))
    return "Metaspace" in types or any(_values(description["pre_tokenizer"], "add_prefix_space"))


def for_ordinary_text(description: dict[str, Any]) -> dict[str, Any]:
    """The description without special tokens, so that no text can be read as one.

    Every token keeps its id. A model that would find a special token in its own vocabulary, as
    one of words or scores does, has it under a name with a space in front: no text that reaches
    the model holds a space.
    """
    special = {t["content"]: t["id"] for t in description.get("added_tokens", ()) if t["special"]}
    others = [t for t in description.get("added_tokens", ()) if not t["special"]]
    model = description["model"]
    if model.get("type") == "Unigram":
        model = {**model, "vocab": _hidden_in_scores(model["vocab"], special)}
    else:
        model = _hidden_in_merges(model, special)
    return {**description, "added_tokens": others, "model": model, "post_processor": None}


def with_special_tokens(text: str, names: Sequence[str]) -> str:
    """The text of a description with further special tokens, whose ids follow the others."""
    description = json.loads(text)
    vocabulary = description["model"]["vocab"]
    ids = vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
    added = [*description["added_tokens"]]
    first = max([*ids, *(token["id"] for token in added)], default=-1) + 1
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    for token_id, name in enumerate(names, first):
        added.append({"id": token_id, "content": name, **flags, "special": True})
    return json.dumps({**description, "added_tokens": added}, ensure_ascii=False)


def _hidden_in_scores(vocabulary: list[Any], special: dict[str, int]) -> list[Any]:
    hidden = [[f" {piece}" if piece in special else piece, score] for piece, score in vocabulary]
    for token, token_id in sorted(special.items(), key=lambda item: item[1]):
        if token_id == len(hidden):  # beside the model's own vocabulary
            hidden.append([f" {token}", 0.0])
    return hidden


def _hidden_in_merges(model: dict[str, Any], special: dict[str, int]) -> dict[str, Any]:
    vocabulary = special | model["vocab"]
    if not model.get("ignore_merges") or model.get("unk_token") is None:
        return {**model, "vocab": vocabulary}  # merges alone make tokens
    names = {token: f" {token}" if token in special else token for token in vocabulary}
    return {
        **model,
        "vocab": {names[token]: token_id for token, token_id in vocabulary.items()},
        "unk_token": names[model["unk_token"]],
    }


def _marks_spaces(stages: list[Any]) -> bool:
    types = set(_types(stages))
    return "Metaspace" in types or SPACE_MARK in set(_values(stages, "content"))


def _spells_the_unknown(model: dict[str, Any]) -> bool:
    """Whether a character outside the vocabulary leaves a trace."""
    unknown = model.get("unk_token", model.get("unk_id"))
    return bool(model.get("vocab")) and (unknown is not None or bool(model.get("byte_fallback")))


def _cuts_each_character(description: dict[str, Any]) -> bool:
    split = description.get("pre_tokenizer") or {}
    vocabulary = description["model"].get("vocab", {})
    added = {token["content"] for token in description.get("added_tokens", ())}
    return (
        split.get("pattern") == {"Regex": EACH_CHARACTER}
        and description.get("normalizer") is None
        and description.get("decoder") == {"type": "Fuse"}
        and all(len(token) == 1 or token in added for token in vocabulary)
    )


def _types(component: Any) -> Iterator[str]:
    """The ``type`` of a component and of those within it."""
    if isinstance(component, dict):
        yield component.get("type", "")
        component = list(component.values())
    if isinstance(component, list):
        for part in component:
            yield from _types(part)


def _values(component: Any, key: str) -> Iterator[Any]:
    """The values under a key in a component and in those within it."""
    if isinstance(component, dict):
        if key in component:
            yield component[key]
        component = list(component.values())
    if isinstance(component, list):
        for part in component:
            yield from _values(part, key)

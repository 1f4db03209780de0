"""``tokenizer.json``: which kinds are lossless, and so can be used here."""

import json
from collections.abc import Iterator
from typing import Any, Literal

from jax_lm.errors import JaxLMError
from jax_lm.tokenizers.spelling import BYTES, NEVER_IN_UTF8

Kind = Literal["byte-level-bpe", "characters"]

EACH_CHARACTER = r"[\s\S]"
KINDS_READ = "byte-level BPE and character vocabularies"


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

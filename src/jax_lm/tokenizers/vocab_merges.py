"""``vocab.json`` and ``merges.txt``: a byte-level BPE in the two files of GPT-2's first release."""

import json
from pathlib import Path

from jax_lm.errors import JaxLMError
from jax_lm.tokenizers.reading import read_object, read_text
from jax_lm.tokenizers.spelling import BYTES

VOCABULARY, MERGES = "vocab.json", "merges.txt"


def partner_of(path: Path) -> tuple[Path, Path]:
    """The vocabulary and the merges that a file belongs to, by its name.

    Names may share a prefix, as in ``gpt2-vocab.json`` and ``gpt2-merges.txt``.

    Returns:
        The two paths; the file itself twice if it is neither.

    Raises:
        JaxLMError: one is there without the other.
    """
    for ending, other in ((VOCABULARY, MERGES), (MERGES, VOCABULARY)):
        if path.name.endswith(ending):
            partner = path.with_name(path.name.removesuffix(ending) + other)
            if not partner.is_file():
                raise JaxLMError(
                    f"{path}: {partner.name} is not beside it; a vocabulary and its merges are "
                    "read together"
                )
            return (path, partner) if ending == VOCABULARY else (partner, path)
    return path, path


def read_vocabulary_and_merges(vocabulary: Path, merges: Path, leading_space: bool) -> str:
    """The text of a ``tokenizer.json`` with the same ids.

    A token that is neither a byte nor made by a merge is a special one: no text gives it.

    Args:
        vocabulary: a JSON object from token to id.
        merges: a pair a line, the most frequent first, below an optional ``#version`` line.
        leading_space: a space is put before a text that has none.

    Raises:
        JaxLMError: a file is broken; it names the line.
    """
    ids = read_object(vocabulary)
    if not ids or sorted(map(str, ids.values())) != sorted(map(str, range(len(ids)))):
        raise JaxLMError(f"{vocabulary}: expected tokens with the ids 0 to {len(ids) - 1}")
    pairs = _read_pairs(merges, ids)
    made = {left + right for left, right in pairs}
    special = [token for token in ids if token not in made and token not in BYTES]
    byte_level = {"type": "ByteLevel", "add_prefix_space": leading_space, "trim_offsets": True}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [{"id": ids[token], "content": token, **flags, "special": True} for token in special]
    return json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": sorted(added, key=lambda token: token["id"]),
            "normalizer": None,
            "pre_tokenizer": {**byte_level, "use_regex": True},
            "post_processor": None,
            "decoder": {**byte_level, "use_regex": True},
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": False,
                "byte_fallback": False,
                "vocab": ids,
                "merges": [list(pair) for pair in pairs],
            },
        },
        ensure_ascii=False,
    )


def _read_pairs(path: Path, ids: dict[str, int]) -> list[tuple[str, str]]:
    pairs = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip() or (number == 1 and line.startswith("#version")):
            continue
        left, space, right = line.rstrip("\r").partition(" ")
        missing = [token for token in (left, right, left + right) if token not in ids]
        if not space or missing:
            raise JaxLMError(
                f"{path}:{number}: {line!r} is not a merge of the vocabulary beside it; expected "
                "two tokens that it has, and whose join it has"
            )
        pairs.append((left, right))
    return pairs

"""Where a tokenizer lies, and what its files say: every layout in which people keep one."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jax_lm.errors import JaxLMError
from jax_lm.tokenizers.hub import hub_directory, is_hub_name
from jax_lm.tokenizers.reading import read_bytes, read_object, read_text
from jax_lm.tokenizers.sentencepiece.convert import special_tokens, to_description
from jax_lm.tokenizers.sentencepiece.model import read_model
from jax_lm.tokenizers.special import SpecialTokens
from jax_lm.tokenizers.vocab_merges import partner_of, read_vocabulary_and_merges

DESCRIPTION = "tokenizer.json"
CONFIG = "tokenizer_config.json"
OLDER_CONFIG = "special_tokens_map.json"
OLDER_ADDED = "added_tokens.json"
MODEL = "tokenizer.model"
"""SentencePiece's own file, under the name that ``transformers`` gives it."""
KEPT_SETTINGS = ("chat_template", "model_max_length")
"""What a saved copy keeps of the settings it was loaded with."""
KEPT_FILES = ("chat_template.jinja", MODEL)
LAYOUTS = (DESCRIPTION, "*tokenizer.json", "vocab.json", "*vocab.json", MODEL, "*.model")
"""In the order in which a directory is looked through."""
EXPECTED = (
    "expected a tokenizer: tokenizer.json, vocab.json with merges.txt, or a SentencePiece .model"
)


class FoundTokenizer(NamedTuple):
    """What the files say."""

    description: str
    special: SpecialTokens | None
    """None: no file says which token plays which part."""
    settings: Mapping[str, Any]
    attachments: Mapping[str, bytes]
    """Further files that belong to it."""
    where: str


def find_tokenizer(place: str | Path) -> FoundTokenizer:
    """Read a tokenizer's file, the one in a directory, or the one of a name on the hub.

    Raises:
        JaxLMError: there is none, or its files cannot be read.
    """
    path = Path(place).expanduser()
    if not path.exists():
        if not is_hub_name(str(place)):
            raise JaxLMError(f"{place}: no such file or directory; {EXPECTED}")
        path = hub_directory(str(place))
    path = _in_directory(path) if path.is_dir() else path
    config = read_object(path.with_name(CONFIG))
    special = SpecialTokens.from_config(config) or SpecialTokens.from_config(
        read_object(path.with_name(OLDER_CONFIG))
    )
    settings = {key: config[key] for key in KEPT_SETTINGS if key in config}
    kept = [path.with_name(name) for name in KEPT_FILES]
    attachments = {file.name: read_bytes(file) for file in kept if file.is_file()}
    description, own = _read(path, attachments)
    if path.suffix != ".json" or not _is_description(path):
        description = _with_added_tokens(description, path, config)
    return FoundTokenizer(description, special or own, settings, attachments, str(path))


def _in_directory(directory: Path) -> Path:
    """The file that decides, by the first layout that is there."""
    for pattern in LAYOUTS:
        found = sorted(directory.glob(pattern))
        if len(found) > 1:
            names = ", ".join(path.name for path in found[:3])
            raise JaxLMError(f"{directory}: more than one tokenizer ({names}); name one of them")
        if found:
            return found[0]
    raise JaxLMError(f"{directory}: no {DESCRIPTION} in it nor another layout; {EXPECTED}")


def _read(path: Path, attachments: dict[str, bytes]) -> tuple[str, SpecialTokens | None]:
    """The text of a ``tokenizer.json``, and parts that the file itself gives to tokens."""
    if path.suffix == ".model":
        data = read_bytes(path)
        attachments[MODEL] = data
        model = read_model(data, str(path))
        return to_description(model, str(path)), special_tokens(model)
    if _is_description(path):
        return read_text(path), None
    vocabulary, merges = partner_of(path)
    config = read_object(path.with_name(CONFIG))
    leading_space = bool(config.get("add_prefix_space"))
    return read_vocabulary_and_merges(vocabulary, merges, leading_space), None


def _is_description(path: Path) -> bool:
    """Whether a file is a ``tokenizer.json``, by name or else by having no merges beside it."""
    return path.name.endswith(DESCRIPTION) or partner_of(path) == (path, path)


def _with_added_tokens(description: str, path: Path, config: Mapping[str, Any]) -> str:
    """Tokens that settings put beside the vocabulary, as ``transformers`` keeps them.

    Raises:
        JaxLMError: an id that does not follow the vocabulary.
    """
    added = {int(i): token for i, token in config.get("added_tokens_decoder", {}).items()}
    older = read_object(path.with_name(OLDER_ADDED)).items()
    added |= {token_id: {"content": token, "special": True} for token, token_id in older}
    parsed = json.loads(description)
    size = len(parsed["model"]["vocab"])
    for token_id in sorted(token_id for token_id in added if token_id >= size):
        if token_id != size:
            raise JaxLMError(
                f"{path.with_name(CONFIG)}: the added token with id {token_id} does not follow "
                f"the {size} before it; mend the ids"
            )
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        parsed["added_tokens"].append({**flags, **_plain(added[token_id]), "id": token_id})
        size += 1
    return json.dumps(parsed, ensure_ascii=False)


def _plain(token: Mapping[str, Any]) -> dict[str, Any]:
    return {"special": True} | {key: v for key, v in token.items() if not key.startswith("__")}

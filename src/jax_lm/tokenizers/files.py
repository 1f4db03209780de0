"""The files a tokenizer lies in, as ``transformers`` names them."""

import json
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jax_lm.errors import JaxLMError
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.special import SpecialTokens

DESCRIPTION = "tokenizer.json"
CONFIG = "tokenizer_config.json"
OLDER_CONFIG = "special_tokens_map.json"
KEPT_SETTINGS = ("chat_template", "model_max_length")
"""What a saved copy keeps of the settings it was loaded with."""


class TokenizerFiles(NamedTuple):
    """What the files say."""

    description: str
    special: SpecialTokens | None
    """None: no file says which token plays which part."""
    settings: Mapping[str, Any]
    where: str


def read_files(place: Path) -> TokenizerFiles:
    """Read a directory, or a ``tokenizer.json`` and what lies beside it.

    Raises:
        JaxLMError: there is no such file, or it is not UTF-8 or not JSON.
    """
    path = place / DESCRIPTION if place.is_dir() else place
    if not path.is_file():
        what = f"no {DESCRIPTION} in it" if place.is_dir() else "no such file or directory"
        raise JaxLMError(f"{place}: {what}; expected a tokenizer, as `tokenizer train` writes it")
    config = _read_object(path.with_name(CONFIG))
    special = SpecialTokens.from_config(config)
    if special is None:
        special = SpecialTokens.from_config(_read_object(path.with_name(OLDER_CONFIG)))
    settings = {key: config[key] for key in KEPT_SETTINGS if key in config}
    return TokenizerFiles(_read_text(path), special, settings, str(path))


def write_files(
    directory: Path, description: str, special: SpecialTokens, settings: Mapping[str, Any]
) -> None:
    """Write a directory that this project and ``transformers.AutoTokenizer`` load."""
    directory.mkdir(parents=True, exist_ok=True)
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        **special.config(),
        **settings,
    }
    _replace(directory / DESCRIPTION, description)
    _replace(directory / CONFIG, json.dumps(config, ensure_ascii=False, indent=2) + "\n")


def check_writable(directory: Path, overwrite: bool) -> None:
    """Find out before long work whether a tokenizer can be written to a directory.

    Raises:
        JaxLMError: it is a file, or holds files and ``overwrite`` is not given.
    """
    if directory.exists() and not directory.is_dir():
        raise JaxLMError(f"{directory}: is a file; --output names a directory")
    if directory.is_dir() and not overwrite and any(directory.iterdir()):
        raise JaxLMError(f"{directory}: exists already; name another --output or add --overwrite")


def write_directory(tokenizer: Tokenizer, directory: Path) -> None:
    """Save to a directory that appears whole; in an existing one, replace file by file."""
    if directory.is_dir() and any(directory.iterdir()):
        tokenizer.save(directory)
        return
    directory.parent.mkdir(parents=True, exist_ok=True)
    temporary = directory.with_name(f".tmp-{secrets.token_hex(4)}-{directory.name}")
    try:
        tokenizer.save(temporary)
        temporary.replace(directory)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".tmp-{secrets.token_hex(4)}-{path.name}")
    try:
        temporary.write_text(text, encoding="utf-8", newline="")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _read_object(path: Path) -> dict[str, Any]:
    """A JSON object, empty where there is no such file."""
    if not path.exists():
        return {}
    try:
        value = json.loads(_read_text(path))
    except ValueError as error:
        raise JaxLMError(f"{path}: broken JSON ({error})") from error
    if not isinstance(value, dict):
        raise JaxLMError(f"{path}: expected a JSON object")
    return value


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise JaxLMError(f"{path}: not UTF-8 ({error}); a tokenizer file is JSON text") from error

"""The files a tokenizer is written to, as ``transformers`` names them."""

import json
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jax_lm.errors import JaxLMError
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.finding import CONFIG, DESCRIPTION
from jax_lm.tokenizers.special import SpecialTokens


def write_files(
    directory: Path,
    description: str,
    special: SpecialTokens,
    settings: Mapping[str, Any],
    attachments: Mapping[str, bytes],
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
    for name, content in attachments.items():
        _replace(directory / name, content)


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


def _replace(path: Path, content: str | bytes) -> None:
    temporary = path.with_name(f".tmp-{secrets.token_hex(4)}-{path.name}")
    try:
        if isinstance(content, bytes):
            temporary.write_bytes(content)
        else:
            temporary.write_text(content, encoding="utf-8", newline="")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)

"""Prompts from files, and continuations as JSON lines."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jax_lm.errors import JaxLMError, UsageError

FIELDS = ("prompt", "in_text")
"""Fields of a JSON record that hold its prompt; the first that is there counts."""


def all_prompts(given: Sequence[str], file: Path | None, many: Path | None = None) -> list[str]:
    """Prompts given as they are, the one that a file holds, and those of a file of prompts.

    Raises:
        JaxLMError: a file is not UTF-8, or a line of it is no prompt.
        UsageError: there is none.
    """
    prompts = [*given]
    if file is not None:
        prompts.append(read_prompt(file))
    if many is not None:
        prompts += read_prompts(many)
    if not prompts:
        raise UsageError(
            'nothing to continue: give --prompt "...", --prompt-file FILE or --prompts FILE'
        )
    return prompts


def read_prompt(path: Path) -> str:
    """The text of a file without its last line break, which is the editor's rather than the text's.

    Raises:
        JaxLMError: the file is not UTF-8.
    """
    return _text(path).removesuffix("\n")


def read_prompts(path: Path) -> list[str]:
    """The prompts of a file: the lines of a text, or one of each JSON record.

    Args:
        path: ``.jsonl`` with records such as ``{"prompt": "..."}`` or ``{"in_text": "..."}``, or
            ``.txt`` with a prompt a line; empty lines are none.

    Raises:
        JaxLMError: the file is not UTF-8, or a line is not such a record.
        UsageError: its name ends otherwise.
    """
    if path.suffix not in (".jsonl", ".txt"):
        raise UsageError(f"--prompts {path}: expected a file that ends with .jsonl or .txt")
    # Not splitlines: that also cuts at characters that JSON strings and texts may have.
    lines = [line.removesuffix("\r") for line in _text(path).split("\n")]
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if path.suffix == ".txt":
        return [line for _, line in numbered]
    return [_prompt_of(line, f"{path}, line {number}") for number, line in numbered]


def as_json_line(record: dict[str, Any]) -> str:
    """One line of JSON, as UTF-8."""
    return json.dumps(record, ensure_ascii=False) + "\n"


def _prompt_of(line: str, where: str) -> str:
    expected = 'expected a record such as {"prompt": "..."} or {"in_text": "..."}'
    try:
        record = json.loads(line)
    except ValueError as error:
        raise JaxLMError(f"{where}: not JSON ({error}): {expected}") from error
    if not isinstance(record, dict):
        raise JaxLMError(f"{where}: {expected}")
    prompt = next((record[name] for name in FIELDS if name in record), None)
    if not isinstance(prompt, str):
        raise JaxLMError(f"{where}: {expected}")
    return prompt


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise JaxLMError(f"{path}: not UTF-8 text ({error.reason}): convert it") from error

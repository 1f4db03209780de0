"""Which chat template: one by name, a jinja file, or the one that comes with a tokenizer."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jax_lm.documents.conversations.sandbox import check_syntax
from jax_lm.errors import JaxLMError, UsageError, nearest

REFUSE_OTHERS = (
    "{% else %}{{ raise_exception('it has no place for the role ' + message['role']) }}{% endif %}"
)
CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
DSGPT2 = (
    "{% for message in messages %}"
    "{% if message['role'] == 'user' %}{{ '<usr><s>' + message['content'] + '</s>' }}"
    "{% elif message['role'] == 'assistant' %}{{ '<sys><s>' + message['content'] + '</s>' }}"
    f"{REFUSE_OTHERS}{{% endfor %}}"
    "{% if add_generation_prompt %}{{ '<sys><s>' }}{% endif %}"
)
VICUNA = (
    "{% if messages[0]['role'] != 'system' %}"
    "{{ 'A chat between a curious user and an artificial intelligence assistant. The assistant "
    "gives helpful, detailed, and polite answers to the user\\'s questions. ' }}"
    "{% endif %}"
    "{% for message in messages %}"
    "{% if message['role'] == 'system' %}{{ message['content'] + ' ' }}"
    "{% elif message['role'] == 'user' %}{{ 'USER: ' + message['content'] + ' ' }}"
    "{% elif message['role'] == 'assistant' %}"
    "{{ 'ASSISTANT: ' + message['content'] + (eos_token or '</s>') }}"
    f"{REFUSE_OTHERS}{{% endfor %}}"
    "{% if add_generation_prompt %}{{ 'ASSISTANT: ' }}{% endif %}"
)
PLAIN = (
    "{% for message in messages %}"
    "{{ (message['role'] | capitalize) + ': ' + message['content'] + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant: ' }}{% endif %}"
)
BARE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
NAMED = {"chatml": CHATML, "dsgpt2": DSGPT2, "vicuna": VICUNA, "plain": PLAIN, "bare": BARE}
TEMPLATE_FILE = "chat_template.jinja"
SPECIAL_TOKENS = ("bos", "eos", "pad", "unk", "sep", "cls", "mask")


@dataclass(frozen=True)
class ChatTemplate:
    """How conversations become text; its ``repr`` says all that the text depends on."""

    name: str = field(repr=False)
    """As it was asked for: a path perhaps, on which no text depends."""
    source: str
    """The jinja template."""
    special_tokens: tuple[tuple[str, str], ...] = ()
    """What ``bos_token`` and the like stand for in it."""
    today: str = ""
    """The day that ``strftime_now`` tells, for templates that ask: workers must not disagree."""


def chat_template(written: str | None, tokenizer_directory: Path | None = None) -> ChatTemplate:
    """The template that a user asked for.

    Args:
        written: a name, a jinja file, a tokenizer directory, or None: the tokenizer's own where
            there is one, else ``plain``.
        tokenizer_directory: where the special tokens come from, unless ``written`` is another.

    Raises:
        UsageError: there is no template of that name.
        JaxLMError: it cannot be read or is not jinja.
    """
    if written is None:
        source = None if tokenizer_directory is None else _template_of(tokenizer_directory)
        if source is None:
            return _checked("plain", PLAIN, tokenizer_directory)
        return _checked(str(tokenizer_directory), source, tokenizer_directory)
    if written in NAMED:
        return _checked(written, NAMED[written], tokenizer_directory)
    path = Path(written)
    if path.is_dir():
        source = _template_of(path)
        if source is None:
            raise JaxLMError(
                f"{path}: no chat template in it, neither in {TEMPLATE_FILE} nor in "
                "tokenizer_config.json; name one of " + ", ".join(NAMED)
            )
        return _checked(written, source, path)
    if path.is_file():
        return _checked(written, _read(path), tokenizer_directory)
    raise UsageError(
        f"--chat-template {written}: expected {', '.join(NAMED)}, a jinja file or a tokenizer "
        f"directory{nearest(written, NAMED)}"
    )


def has_template(tokenizer_directory: Path) -> bool:
    """Whether a tokenizer comes with a chat template, so that its directory can be named as one.

    Raises:
        JaxLMError: its files cannot be read.
    """
    return _template_of(tokenizer_directory) is not None


DEFAULT = ChatTemplate("plain", PLAIN)
"""The template of conversations for which none was asked."""


def _checked(name: str, source: str, directory: Path | None) -> ChatTemplate:
    check_syntax(source, name)
    tokens = tuple(_special_tokens(directory)) if directory is not None else ()
    return ChatTemplate(name, source, tokens, _today() if "strftime_now" in source else "")


def _today() -> str:
    """The date, or that of ``SOURCE_DATE_EPOCH``, which makes a result repeatable another day."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    now = datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now()
    return now.date().isoformat()


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise JaxLMError(f"{path}: the chat template cannot be read: {reason}") from error


def _template_of(directory: Path) -> str | None:
    """A tokenizer directory's template, by the file of its own or in its configuration."""
    if (directory / TEMPLATE_FILE).is_file():
        return _read(directory / TEMPLATE_FILE)
    for name in ("tokenizer_config.json", "chat_template.json"):
        found = _default(_json(directory / name).get("chat_template"))
        if found is not None:
            return found
    return None


def _default(value: object) -> str | None:
    """The template called ``default``, or the first, where there are several."""
    if isinstance(value, list):
        value = {item.get("name"): item.get("template") for item in value if isinstance(item, dict)}
    if isinstance(value, dict):
        value = value.get("default", next(iter(value.values()), None))
    return value if isinstance(value, str) else None


def _special_tokens(directory: Path) -> Iterator[tuple[str, str]]:
    given = _json(directory / "special_tokens_map.json")
    given = {**given, **_json(directory / "tokenizer_config.json")}
    for name in SPECIAL_TOKENS:
        token = given.get(f"{name}_token")
        if isinstance(token, Mapping):
            token = token.get("content")
        if isinstance(token, str):
            yield f"{name}_token", token


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise JaxLMError(
            f"{path}: not a JSON file ({error}); mend it or name a template"
        ) from error
    return value if isinstance(value, dict) else {}

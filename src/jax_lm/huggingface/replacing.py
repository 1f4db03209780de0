"""A directory that appears under its name whole, or not at all."""

import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jax_lm.errors import JaxLMError
from jax_lm.preprocessing.atomic import sync

EXPORTED = re.compile(
    r"model(-\d+-of-\d+)?\.safetensors(\.index\.json)?|(generation_)?config\.json|README\.md"
    r"|(added_tokens|special_tokens_map|tokenizer|tokenizer_config|vocab)\.json"
    r"|chat_template\.jinja|merges\.txt|tokenizer\.model"
)
"""Files of an earlier export, which a new one replaces even where it does not have them."""


@contextmanager
def replacing(output: Path) -> Iterator[Path]:
    """Give a temporary directory beside ``output``; on success it takes that name.

    Raises:
        JaxLMError: an earlier directory there holds files that the new one does not replace.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    token = secrets.token_hex(4)
    temporary = output.with_name(f".tmp-{token}-{output.name}")
    temporary.mkdir()
    try:
        yield temporary
        for path in [*temporary.rglob("*"), temporary]:
            sync(path)
        _take_place(temporary, output, output.with_name(f".tmp-{token}-old-{output.name}"))
        sync(output.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _take_place(temporary: Path, output: Path, aside: Path) -> None:
    if not output.exists():
        temporary.rename(output)
        return
    new = {path.name for path in temporary.iterdir()}
    found = {path.name for path in output.iterdir()}
    foreign = [name for name in found - new if not EXPORTED.fullmatch(name)]
    if foreign:
        raise JaxLMError(
            f"{output}: replacing the earlier export would delete {', '.join(sorted(foreign))}: "
            "move that away, or give another directory"
        )
    output.rename(aside)
    temporary.rename(output)
    shutil.rmtree(aside)

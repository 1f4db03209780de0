"""A directory that appears under its name whole, or not at all.

One that replaces another takes its name in two renames, as POSIX can swap no directories. A process
killed just between them leaves no OUTPUT; the earlier one then lies beside it, whole, as
``OUTPUT.earlier-XXXXXXXX``, and the next attempt to write OUTPUT puts it back first.
"""

import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jax_lm.errors import JaxLMError
from jax_lm.files.atomic import sync

EXPORTED = re.compile(
    r"model(-\d+-of-\d+)?\.safetensors(\.index\.json)?|(generation_)?config\.json|README\.md"
    r"|(added_tokens|special_tokens_map|tokenizer|tokenizer_config|vocab)\.json"
    r"|chat_template\.jinja|merges\.txt|tokenizer\.model"
)
"""Files of an earlier export, which a new one replaces even where it does not have them."""


@contextmanager
def replacing(output: Path) -> Iterator[Path]:
    """Give a temporary directory beside ``output``; on success it takes that name.

    Only the moment between the two renames of ``_take_place`` is not safe from a kill: see above.

    Raises:
        JaxLMError: an earlier directory there holds files that the new one does not replace.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    _put_back(output)
    token = secrets.token_hex(4)
    temporary = output.with_name(f".tmp-{token}-{output.name}")
    temporary.mkdir()
    try:
        yield temporary
        for path in [*temporary.rglob("*"), temporary]:
            sync(path)
        _take_place(temporary, output, output.with_name(f"{output.name}.earlier-{token}"))
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
    try:
        output.rename(aside)
        temporary.rename(output)
    except BaseException:
        if aside.exists() and not output.exists():
            aside.rename(output)
        raise
    # Under the name of what is to be deleted: half of it must never be put back.
    aside.rename(temporary)


def _put_back(output: Path) -> None:
    """What a killed process had moved aside, if it did not get further."""
    aside = re.compile(re.escape(output.name) + r"\.earlier-[0-9a-f]{8}")
    found = [path for path in output.parent.iterdir() if aside.fullmatch(path.name)]
    if found and not output.exists():
        max(found, key=lambda path: path.stat().st_mtime).rename(output)

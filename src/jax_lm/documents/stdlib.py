"""``stdlib``: the ``.py`` files of the standard library of the interpreter that runs."""

import hashlib
import os
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from jax_lm.errors import JaxLMError

SPLITS = ("train", "validation")
VALIDATION_PERCENT = 5

SKIPPED_DIRECTORIES = re.compile(
    r"test|tests|idle_test|site-packages|dist-packages|__pycache__|__phello__|config-.*"
)
"""Installed packages, and test suites with their deliberately broken files."""
GENERATED_FILES = re.compile(
    r"pydoc_data/topics\.py|_sysconfigdata_.*\.py|"
    r"encodings/(cp\d+|iso8859_\d+|koi8_\w|mac_\w+|hp_roman8|kz1048|palmos|ptcp154|tis_620)\.py"
)
"""Tables a program wrote: no one would call them Python code to learn from."""


def stdlib_files(split: str | None = None) -> list[tuple[Path, str]]:
    """Path and relative name of every file, in the order of the names.

    Args:
        split: ``train``, ``validation`` (about 5 % of the files) or None for all. A file's split
            depends on its name alone, so it is the same on every machine and in every order.

    Raises:
        JaxLMError: this interpreter has no source files, as some embedded ones.
    """
    root = Path(sysconfig.get_paths()["stdlib"])
    names = sorted(_names(root))
    if not names:
        raise JaxLMError(f"{root} holds no .py files, so `stdlib` cannot be read; name a PATH")
    return [(root / name, name) for name in names if split in (None, split_of(name))]


def split_of(name: str) -> str:
    """``train`` or ``validation``, by the sha256 of a relative POSIX path."""
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    return "validation" if number % 100 < VALIDATION_PERCENT else "train"


def _names(root: Path) -> Iterator[str]:
    for parent, directories, files in os.walk(root):
        # In place, so that installed packages are not even listed.
        directories[:] = [name for name in directories if not SKIPPED_DIRECTORIES.fullmatch(name)]
        for file in files:
            name = Path(parent, file).relative_to(root).as_posix()
            if file.endswith(".py") and not GENERATED_FILES.fullmatch(name):
                yield name

"""What is brought from object stores, kept on this machine under names that say what it is."""

import hashlib
import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

from jax_lm.errors import JaxLMError

CACHE_VARIABLE = "JAX_LM_CACHE"


def cache_directory() -> Path:
    """Where what can be made or fetched again is kept: $JAX_LM_CACHE, else ~/.cache/jax-lm."""
    given = os.environ.get(CACHE_VARIABLE)
    return Path(given) if given else Path.home() / ".cache" / "jax-lm"


def place_of(kind: str, *parts: str) -> Path:
    """A directory of the cache; the same parts (a URL, a version) are always the same place."""
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]
    return cache_directory() / kind / key


def made_whole(directory: Path, make: Callable[[Path], None]) -> None:
    """Let ``make`` fill a directory that then appears whole, whoever else makes it too.

    Raises:
        JaxLMError: it cannot be written here, or ``make`` failed.
    """
    temporary = directory.with_name(f"{directory.name}.tmp-{secrets.token_hex(4)}")
    try:
        temporary.mkdir(parents=True)
        make(temporary)
        temporary.rename(directory)
    except OSError as error:
        if not directory.is_dir():  # else another process has just made the same
            raise JaxLMError(
                f"{directory}: cannot be written: {error.strerror or error}"
            ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)

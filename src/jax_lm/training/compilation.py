"""Compiled functions kept between runs, so that the same step is compiled once."""

import hashlib
import importlib.util
import os
import platform
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

from jax_lm.remote.caching import cache_directory

AUTOMATIC = "auto"
MAX_BYTES = 4 * 2**30
"""Of all compiled functions; those not used for longest go first."""
MIN_COMPILE_SECONDS = 0.1
"""What compiles faster is not worth a file."""
_chosen: set[str] = set()
"""Directories set here, to tell them from what the user has set up."""


def use_compilation_cache(directory: str | None, say: Callable[[str], None]) -> Path | None:
    """Keep what is compiled from here on in a directory, and take it from there.

    Several processes may use one directory at once: files appear whole under names that say what
    was compiled, by which version, with which flags and for which devices.

    Args:
        directory: ``auto`` is the user's cache directory, or what JAX_COMPILATION_CACHE_DIR or
            JAX's own configuration says; None: nowhere.
        say: receives why nothing is kept, where that is not what was asked for.

    Returns:
        The directory, or None where nothing is kept.
    """
    given = _current()
    if directory is None:
        _choose(None)
        return None
    if directory == AUTOMATIC and given and given not in _chosen:
        return Path(given)  # set up by the user
    place = _automatic() if directory == AUTOMATIC else Path(directory).expanduser()
    try:
        place.mkdir(parents=True, exist_ok=True)
        if not os.access(place, os.W_OK):
            raise PermissionError(f"no permission to write to {place}")
    except OSError as error:
        say(f"compiled functions are not kept: {error}")
        _choose(None)
        return None
    _choose(place)
    return place


def _current() -> str | None:
    config: Any = jax.config
    directory: str | None = config.jax_compilation_cache_dir
    return directory


def _choose(place: Path | None) -> None:
    chosen = None if place is None else str(place)
    if chosen == _current():
        return
    jax.config.update("jax_compilation_cache_dir", chosen)
    compilation_cache.reset_cache()  # else the directory of the first compilation is kept
    if chosen is None:
        return
    _chosen.add(chosen)
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", MIN_COMPILE_SECONDS)
    if "JAX_COMPILATION_CACHE_MAX_SIZE" not in os.environ and importlib.util.find_spec("filelock"):
        jax.config.update("jax_compilation_cache_max_size", MAX_BYTES)
    # A damaged or unreadable file is compiled anew, and a full disk keeps nothing.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation")


def _automatic() -> Path:
    """A directory of this kind of machine: what is compiled for a CPU runs on no lesser one."""
    return cache_directory() / "compiled" / _machine()


def _machine() -> str:
    return f"{platform.machine()}-{hashlib.sha256(_cpu_features().encode()).hexdigest()[:8]}"


def _cpu_features() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    names = ("flags", "Features", "model name", "CPU part")
    lines = {line for line in text.splitlines() if line.split(":")[0].strip() in names}
    return "\n".join(sorted(lines))

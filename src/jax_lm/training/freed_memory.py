"""Memory that one training step frees stays with the process for the next."""

import ctypes
import os
import sys

M_TRIM_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -4, -8
"""Of glibc's malloc.h (``man 3 mallopt``)."""


def keep_freed_memory() -> bool:
    """Let glibc's malloc neither return freed memory to the system nor map large pieces anew.

    On a CPU a step's activations are one allocation. By default it is mapped, page by page, and
    unmapped again in every step, which costs about a fifth of the step. One arena, since only the
    main one grows without limit. Works only before JAX starts its threads; whoever sets glibc's
    malloc up through the environment is left alone.

    Returns:
        Whether it was done: not without glibc, nor against the environment.
    """
    if not sys.platform.startswith("linux") or _set_up(os.environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = ((M_ARENA_MAX, 1), (M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, -1))
    return all(mallopt(name, value) == 1 for name, value in settings)


def _set_up(environment: "os._Environ[str]") -> bool:
    """Whether the environment speaks of malloc, or puts another in its place."""
    return any(
        name.startswith("MALLOC_") or name in ("GLIBC_TUNABLES", "LD_PRELOAD")
        for name in environment
    )

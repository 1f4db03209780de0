"""Memory that one training step frees stays with the process for the next."""

import ctypes
import importlib.util
import os
import sys

M_TRIM_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -4, -8
"""Of glibc's malloc.h (``man 3 mallopt``)."""


def keep_freed_memory() -> bool:
    """Let glibc's malloc neither return freed memory to the system nor map large pieces anew.

    On a CPU a step's activations are one allocation. By default it is mapped, page by page, and
    unmapped again in every step, which costs about a sixth of the step; kept, it may cost memory,
    since the free pieces do not always fit. One arena, since only the main one grows without limit.
    Works only before JAX starts its threads.

    Returns:
        Whether it was done: only where JAX computes on the CPU and malloc is glibc's, and not
        where the environment sets malloc up (any ``MALLOC_...`` variable).
    """
    if not sys.platform.startswith("linux") or _has_accelerator() or _set_up(os.environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = ((M_ARENA_MAX, 1), (M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, -1))
    return all(mallopt(name, value) == 1 for name, value in settings)


def give_back_freed_memory() -> None:
    """Give the system back what was freed, once: what compiling took is not needed again."""
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def _has_accelerator() -> bool:
    """Whether JAX may find another device; asking JAX would start its threads."""
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        return False
    plugins = ("jax_cuda12_plugin", "jax_cuda13_plugin", "jax_rocm7_plugin", "libtpu")
    return any(importlib.util.find_spec(plugin) is not None for plugin in plugins)


def _set_up(environment: "os._Environ[str]") -> bool:
    """Whether the environment speaks of malloc, or puts another in its place."""
    return any(
        name.startswith("MALLOC_") or name in ("GLIBC_TUNABLES", "LD_PRELOAD")
        for name in environment
    )

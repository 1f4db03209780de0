"""How much memory training holds."""

import os
import resource
import sys
from pathlib import Path

import jax

GB = 1e9


def memory_gb() -> float:
    """Gigabytes (1e9 bytes) in use at most so far on the fullest of this host's devices.

    Where the backend does not count them (a CPU): what the process holds now.
    """
    peaks = [
        stats["peak_bytes_in_use"]
        for stats in (device.memory_stats() for device in jax.local_devices())
        if stats and "peak_bytes_in_use" in stats
    ]
    if peaks:
        return float(max(peaks)) / GB
    return _resident_bytes() / GB


def counts_memory() -> bool:
    """Whether the devices count their memory."""
    return bool(jax.local_devices()[0].memory_stats())


def _resident_bytes() -> float:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return float(pages * os.sysconf("SC_PAGE_SIZE"))
    except OSError:  # no Linux: the most it ever held is what there is
        unit = 1 if sys.platform == "darwin" else 1024
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)

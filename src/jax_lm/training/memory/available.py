"""The memory that there is."""

import os

from jax.sharding import Mesh


def device_memory(mesh: Mesh) -> float | None:
    """Bytes of one device, or of the machine whose CPU is the only one; None: not known."""
    device = mesh.devices.flat[0]
    stats = device.memory_stats() or {}
    if "bytes_limit" in stats:
        return float(stats["bytes_limit"])
    if device.platform != "cpu" or mesh.size > 1 or "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))

"""What every benchmark shares: fresh processes, peak memory, and the result's file."""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jax_lm.trackers.environment import describe

RESULTS = Path(__file__).parent / "results"


def record(name: str, result: Mapping[str, Any]) -> None:
    """Write ``results/NAME.json`` with the machine it was measured on."""
    path = RESULTS / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**result, "machine": describe()}, indent=1) + "\n")
    print(f"written to {path}; tables: python benchmarks/tables.py")


def recorded(name: str) -> dict[str, Any]:
    """What ``results/NAME.json`` holds already."""
    values: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return values


def in_fresh_process(script: str, *args: str) -> dict[str, Any]:
    """What ``script ARGS`` prints as JSON on its last line, with seconds and peak memory."""
    started = time.perf_counter()
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "true"}
    done = subprocess.run(
        [sys.executable, script, *args], stdout=subprocess.PIPE, env=environment, check=False
    )
    if done.returncode:
        sys.exit(f"{script} {' '.join(args)} failed ({done.returncode})")
    values: dict[str, Any] = json.loads(done.stdout.decode().strip().splitlines()[-1])
    return {**values, "process_seconds": time.perf_counter() - started}


def peak_megabytes() -> float:
    """Most memory this process, or any child it waited for, ever held.

    Of itself by the kernel's count since the program began: ``getrusage`` starts from that of the
    process which started it.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(one for one in status.read_text().splitlines() if one.startswith("VmHWM:"))
        own = int(line.split()[1])
    else:
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 1e3


def machine(values: dict[str, Any]) -> str:
    """What the numbers were measured on."""
    versions = ", ".join(f"{name} {values['packages'][name]}" for name in ("jax", "numpy"))
    return (
        f"Measured on {values['processor']}, {values['cores']} cores, Python {values['python']}, "
        f"{versions}, jax-lm {values['jax_lm']}."
    )

"""What a run ran on: versions, processor, memory, devices. JAX is looked at, never imported."""

import os
import platform
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import jax_lm

PACKAGES = (
    "jax",
    "jaxlib",
    "equinox",
    "optax",
    "orbax-checkpoint",
    "numpy",
    "pyarrow",
    "tokenizers",
    "safetensors",
)
GIB = 1024**3


class OptionalPart(NamedTuple):
    """A package that jax-lm works without."""

    package: str
    purpose: str
    install: str
    """The pip command that brings it."""
    version: str | None
    """None where it is not installed."""


OPTIONAL_PARTS = (
    ("apache-beam", "preprocess documents into features", "'jax-lm[beam]'"),
    ("gigatoken", "encode text many times as fast", "'jax-lm[fast]'"),
    ("fastokens", "the same, where gigatoken does not take a tokenizer", "'jax-lm[fast]'"),
    ("orjson", "read JSON lines faster", "'jax-lm[fast]'"),
    ("sentencepiece", "train SentencePiece tokenizers", "'jax-lm[sentencepiece]'"),
    ("sentencex", "preprocess --sentences", "'jax-lm[sentences]'"),
    ("gcsfs", "gs:// sources", "'jax-lm[remote]'"),
    ("s3fs", "s3:// sources", "'jax-lm[remote]'"),
    ("pymongo", "mongodb:// sources and stores", "'jax-lm[mongodb]'"),
    ("jax-cuda13-plugin", "NVIDIA GPUs", "'jax-lm[cuda]'"),
    ("libtpu", "TPUs", "'jax-lm[tpu]'"),
    ("wandb", "log to Weights & Biases", "'jax-lm[wandb]'"),
    ("starlette", "jax-lm serve", "'jax-lm[serve]'"),
    ("uvicorn", "jax-lm serve", "'jax-lm[serve]'"),
    ("lm_eval", "jax-lm evaluate --lm-eval", "'jax-lm[lm-eval]'"),
    ("tensorboard", "look at RUN/tensorboard", "tensorboard"),
    ("transformers", "load an exported model elsewhere", "transformers"),
    ("torch", "run an exported model in transformers", "torch"),
    ("datasets", "hf-dataset: sources", "'jax-lm[datasets]'"),
)


def describe() -> dict[str, Any]:
    """Everything worth keeping beside a run's numbers, as JSON.

    Devices are listed only where JAX is already imported. Nothing here names a user, a host, a
    path or an environment variable that could hold a secret.
    """
    return {
        "jax_lm": jax_lm.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": cores(),
        "memory_gib": memory_gib(),
        "devices": _devices(),
        "packages": {package: version(package) for package in PACKAGES},
    }


def optional_parts() -> list[OptionalPart]:
    """The packages that jax-lm works without, with the version of those that are installed."""
    return [
        OptionalPart(package, purpose, f"pip install {what}", version(package))
        for package, purpose, what in OPTIONAL_PARTS
    ]


def version(package: str) -> str | None:
    """The installed version of a distribution, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def cores() -> int:
    """Processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_gib() -> float | None:
    """Main memory in GiB, or None where the system does not say."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB, 1)
    except (AttributeError, ValueError, OSError):
        return None


def free_gib(path: Path) -> float:
    """Free space in GiB on the disk that holds ``path``, or would once it is made."""
    existing = next(place for place in (path, *path.absolute().parents) if place.exists())
    return shutil.disk_usage(existing).free / GIB


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _devices() -> list[str]:
    jax = sys.modules.get("jax")
    if jax is None:
        return []
    return [f"{device.device_kind} ({device.platform})" for device in jax.devices()]

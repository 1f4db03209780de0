"""Buckets for tests: in this process's memory, or on the server of the fixture."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

# Read when gcsfs is imported; without it, writing to the fake server hangs.
os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")


@contextmanager
def google_store(address: str) -> Iterator[Any]:
    """The filesystem of a server, for this process and those it starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", address)
        patch.setenv("NO_GCE_CHECK", "true")
        patch.setenv("GCLOUD_PROJECT", "test")
        gcsfs = pytest.importorskip("gcsfs")
        yield gcsfs.GCSFileSystem(project="test", token="anon", skip_instance_cache=True)
        gcsfs.GCSFileSystem.clear_instance_cache()


@contextmanager
def google_bucket(address: str, name: str) -> Iterator[Any]:
    """The same with a new bucket."""
    with google_store(address) as filesystem:
        filesystem.mkdir(name)
        yield filesystem


def put_features(filesystem: Any, prefix: str, folder: str) -> None:
    """Copy a feature set to ``BUCKET/FOLDER``, its manifest last."""
    path = Path(prefix)
    found = [*path.parent.glob(f"{path.name}-*.parquet"), *path.parent.glob(f"_{path.name}.tok*/*")]
    for file in [*found, path.parent / f"_{path.name}.manifest.json"]:
        filesystem.pipe_file(f"{folder}/{file.relative_to(path.parent)}", file.read_bytes())

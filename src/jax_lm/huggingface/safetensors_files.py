"""Tensors in safetensors files: where each lies in its file, read from there without a copy."""

import json
import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open

from jax_lm.errors import JaxLMError
from jax_lm.huggingface.tensor_files import TensorInfo

FLOAT_DTYPES: dict[str, np.dtype] = {
    "F64": np.dtype(np.float64),
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
}
"""What weights may be stored as."""


class _Place(NamedTuple):
    path: Path
    start: int
    end: int


class SafetensorsFiles:
    """The tensors of one or more safetensors files."""

    def __init__(self, where: Path, paths: Sequence[Path]):
        """Read the files' headers.

        Raises:
            JaxLMError: files are missing, truncated or no safetensors files; all are named.
        """
        self.where = where
        self.infos: dict[str, TensorInfo] = {}
        self._places: dict[str, _Place] = {}
        problems = [problem for path in paths for problem in _problem(path)]
        if problems:
            raise JaxLMError(f"{where}: {'; '.join(problems)}: copy again what the model needs")
        for path in paths:
            self._read_header(path)

    @contextmanager
    def view(self, name: str) -> Iterator[np.ndarray]:
        """One tensor mapped from its file; the pages are given back when the context closes."""
        place, (shape, stored) = self._places[name], self.infos[name]
        dtype = FLOAT_DTYPES[stored]
        skipped = place.start % mmap.ALLOCATIONGRANULARITY
        if place.start == place.end:
            yield np.zeros(shape, dtype)
            return
        with place.path.open("rb") as file:
            mapped = mmap.mmap(
                file.fileno(),
                place.end - place.start + skipped,
                access=mmap.ACCESS_READ,
                offset=place.start - skipped,
            )
        # The mapping ends with the last array on it: closing it under an array would be a crash.
        yield np.frombuffer(mapped, np.uint8)[skipped:].view(dtype).reshape(shape)

    def read_into(self, name: str, out: np.ndarray) -> bool:
        """Read a tensor's bytes to where they belong."""
        place = self._places[name]
        if out.dtype != FLOAT_DTYPES[self.infos[name].dtype] or not out.flags.c_contiguous:
            return False
        target = memoryview(out.reshape(-1).view(np.uint8).data)
        with place.path.open("rb", buffering=0) as file:
            file.seek(place.start)
            while target:
                count = file.readinto(target)
                if not count:
                    raise JaxLMError(f"{place.path}: ends within {name}: copy it again")
                target = target[count:]
        return True

    def _read_header(self, path: Path) -> None:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size))
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            start, end = (8 + size + offset for offset in entry["data_offsets"])
            self.infos[name] = TensorInfo(tuple(entry["shape"]), entry["dtype"])
            self._places[name] = _Place(path, start, end)


def _problem(path: Path) -> Iterator[str]:
    """What is wrong with a file; the library checks its header and its length."""
    if not path.is_file():
        yield f"{path.name} is not there"
        return
    try:
        with safe_open(path, framework="numpy"):
            pass
    except SafetensorError as error:
        size = f"{path.stat().st_size:,} bytes"
        yield f"{path.name} is not a whole safetensors file ({size}; {error})"

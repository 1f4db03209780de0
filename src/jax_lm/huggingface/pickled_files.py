"""Tensors in torch's own files, read through its loader for weights, which runs no code."""

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from jax_lm.errors import JaxLMError, missing_extra
from jax_lm.huggingface.safetensors_files import FLOAT_DTYPES
from jax_lm.huggingface.tensor_files import TensorInfo

TORCH_NAMES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}


class PickledFiles:
    """The tensors of one or more ``.bin`` or ``.pth`` files, mapped where their format allows."""

    def __init__(self, where: Path, paths: Sequence[Path]):
        """Open the files.

        Raises:
            JaxLMError: as ``load_files``.
        """
        self.where = where
        self._tensors: dict[str, Any] = {}
        for tensors in load_files(where, paths):
            self._tensors.update(tensors)
        self.infos: Mapping[str, TensorInfo] = {
            name: tensor_info(tensor) for name, tensor in self._tensors.items()
        }

    @contextmanager
    def view(self, name: str) -> Iterator[np.ndarray]:
        """One tensor, on the memory of the mapped file."""
        yield as_numpy(self._tensors[name])

    def read_into(self, name: str, out: np.ndarray) -> bool:
        """Never: a mapped tensor is copied instead."""
        return False


class _UnusableFile(Exception):
    """Says what is wrong, after the file's name."""


def load_files(where: Path, paths: Sequence[Path]) -> list[Mapping[str, Any]]:
    """Tensors of torch's by name, of each file.

    Raises:
        JaxLMError: torch is not installed, or files are missing, damaged or hold more than
            tensors; all of them are named.
    """
    try:
        import torch
    except ImportError as error:
        raise missing_extra("torch", "torch", f"{where}: reading pickled weights") from error
    loaded, problems = [], []
    for path in paths:
        try:
            loaded.append(_tensors(torch, path))
        except _UnusableFile as error:
            problems.append(f"{path.name}: {error}")
    if problems:
        raise JaxLMError(f"{where}: {'; '.join(problems)}")
    return loaded


def _tensors(torch: Any, path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        raise _UnusableFile("not there: copy it again")
    try:
        loaded = _load(torch, path)
    except pickle.UnpicklingError as error:
        raise _UnusableFile(
            "holds more than weights, and is not loaded because that could run code: save the "
            "weights alone, best as safetensors"
        ) from error
    except (RuntimeError, EOFError, ValueError) as error:
        raise _UnusableFile("not a whole file of torch's: copy it again") from error
    if not isinstance(loaded, Mapping) or not all(
        isinstance(tensor, torch.Tensor) for tensor in loaded.values()
    ):
        raise _UnusableFile(f"expected tensors by name, not {type(loaded).__name__}")
    return loaded


def tensor_info(tensor: Any) -> TensorInfo:
    """Shape and dtype of a tensor of torch's, as safetensors names them."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorInfo(tuple(tensor.shape), TORCH_NAMES.get(dtype, dtype))


def as_numpy(tensor: Any) -> np.ndarray:
    """A tensor of torch's as an array on the same memory."""
    import torch

    wanted = FLOAT_DTYPES[tensor_info(tensor).dtype]
    integers = {1: torch.uint8, 2: torch.int16}
    plain = tensor.detach().contiguous()
    if wanted.itemsize in integers:  # NumPy knows neither bfloat16 nor float8
        plain = plain.view(integers[wanted.itemsize])
    return np.asarray(plain.numpy()).view(wanted)


def _load(torch: Any, path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError as error:
        if "mmap can only be used" not in str(error):
            raise
        return torch.load(path, map_location="cpu", weights_only=True)  # files of before torch 1.6

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
            JaxLMError: torch is not installed, or a file is damaged or holds more than tensors.
        """
        self.where = where
        self._tensors: dict[str, Any] = {}
        for path in paths:
            self._tensors.update(load_tensors(path))
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


def load_tensors(path: Path) -> Mapping[str, Any]:
    """Tensors of torch's by name.

    Raises:
        JaxLMError: torch is not installed, or the file is damaged or holds more than tensors.
    """
    try:
        import torch
    except ImportError as error:
        raise missing_extra("torch", "torch", f"{path}: reading pickled weights") from error
    try:
        loaded = _load(torch, path)
    except pickle.UnpicklingError as error:
        raise JaxLMError(
            f"{path}: holds more than weights, and is not loaded because that could run code; "
            "save the weights alone, best as safetensors"
        ) from error
    except (RuntimeError, EOFError, ValueError) as error:
        raise JaxLMError(f"{path}: not a whole file of torch's: copy it again") from error
    if not isinstance(loaded, Mapping) or not all(
        isinstance(tensor, torch.Tensor) for tensor in loaded.values()
    ):
        raise JaxLMError(f"{path}: expected tensors by name, not {type(loaded).__name__}")
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

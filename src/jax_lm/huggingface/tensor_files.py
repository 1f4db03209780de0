"""Tensors of a Hugging Face directory, read one by one: one safetensors file, or many."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

# safetensors gives bfloat16 and float8 tensors to NumPy only where their dtypes are registered.
import ml_dtypes  # noqa: F401
import numpy as np
from safetensors import SafetensorError, safe_open

from jax_lm.errors import JaxLMError

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
PICKLED_FILES = ("pytorch_model.bin", "pytorch_model.bin.index.json")


class TensorInfo(NamedTuple):
    """What a file's header says of a tensor."""

    shape: tuple[int, ...]
    dtype: str
    """As safetensors names it: ``F32``, ``BF16``, ..."""


class TensorFiles:
    """The tensors of a directory by name; nothing is read before it is asked for."""

    def __init__(self, directory: Path):
        """Open the files and read their headers.

        Raises:
            JaxLMError: a file is missing, truncated or not a safetensors file.
        """
        self.directory = directory
        self.infos: dict[str, TensorInfo] = {}
        self._files: dict[str, Any] = {}
        for path in _paths(directory):
            self._open(path)

    def read(self, name: str) -> np.ndarray:
        """One tensor, as float32."""
        try:
            return np.asarray(self._files[name].get_tensor(name)).astype(np.float32, copy=False)
        except SafetensorError as error:
            raise JaxLMError(f"{self.directory}: {name} cannot be read: {error}") from error

    def _open(self, path: Path) -> None:
        if not path.is_file():
            raise JaxLMError(f"{path}: no such file, and {INDEX_FILE} names it: copy it again")
        try:
            file: Any = safe_open(path, framework="numpy")
            for name in file.keys():  # noqa: SIM118 (the file itself is not iterable)
                view = file.get_slice(name)
                self.infos[name] = TensorInfo(tuple(view.get_shape()), view.get_dtype())
                self._files[name] = file
        except SafetensorError as error:
            raise JaxLMError(
                f"{path}: not a whole safetensors file ({error}): copy it again"
            ) from error


def read_json(path: Path) -> Mapping[str, Any]:
    """A JSON object.

    Raises:
        JaxLMError: the file holds something else.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise JaxLMError(f"{path}: not valid JSON: {error}") from error
    if not isinstance(values, dict):
        raise JaxLMError(f"{path}: expected a JSON object, not {type(values).__name__}")
    return values


def _paths(directory: Path) -> list[Path]:
    if (directory / SINGLE_FILE).is_file():
        return [directory / SINGLE_FILE]
    index = directory / INDEX_FILE
    if index.is_file():
        weight_map = read_json(index).get("weight_map")
        if not isinstance(weight_map, dict):
            raise JaxLMError(f"{index}: expected a mapping weight_map of tensor names to files")
        return [directory / str(name) for name in sorted(set(weight_map.values()))]
    if any((directory / name).is_file() for name in PICKLED_FILES):
        raise JaxLMError(
            f"{directory}: only pickled weights (pytorch_model.bin), which can run code: "
            f"save the model with transformers as {SINGLE_FILE} first"
        )
    raise JaxLMError(f"{directory}: no {SINGLE_FILE} and no {INDEX_FILE}: there are no weights")

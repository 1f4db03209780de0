"""The tensors of a directory by name, whatever files they lie in; nothing is read before asked."""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from jax_lm.errors import JaxLMError


class TensorInfo(NamedTuple):
    """What a file's header says of a tensor."""

    shape: tuple[int, ...]
    dtype: str
    """As safetensors names it: ``F32``, ``BF16``, ..."""


class TensorFiles(Protocol):
    """Named tensors that are read one by one."""

    @property
    def where(self) -> Path:
        """The directory, for messages."""
        ...

    @property
    def infos(self) -> Mapping[str, TensorInfo]:
        """Every tensor there is."""
        ...

    def view(self, name: str) -> AbstractContextManager[np.ndarray]:
        """One tensor in its stored dtype, while the context is open: do not keep it."""
        ...

    def read_into(self, name: str, out: np.ndarray) -> bool:
        """Read a tensor straight into a contiguous array of its size and dtype.

        Returns:
            Whether that was possible; otherwise nothing was read.
        """
        ...


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


def indexed_files(index: Path) -> list[Path]:
    """The files that an index names, whether they are there or not.

    Raises:
        JaxLMError: the index is broken.
    """
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise JaxLMError(f"{index}: expected a mapping weight_map of tensor names to files")
    return [index.parent / name for name in sorted(set(map(str, weight_map.values())))]

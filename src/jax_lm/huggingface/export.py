"""Export: our arrays as safetensors, written tensor by tensor; nothing is held twice."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from jax_lm.errors import JaxLMError
from jax_lm.huggingface.convert import (
    StoredWeights,
    leaves_by_path,
    their_tensors,
)
from jax_lm.huggingface.family import HubFamily
from jax_lm.huggingface.mapping import Rule
from jax_lm.huggingface.opening import INDEX_FILE, SINGLE_FILE
from jax_lm.models.registry import abstract_model

Bytes = int
SHARD_SIZE: Bytes = 5_000_000_000
"""Default of the most that one file holds, as in transformers."""
STORED_DTYPES: dict[str, tuple[str, np.dtype]] = {
    "float32": ("F32", np.dtype(np.float32)),
    "bfloat16": ("BF16", np.dtype(ml_dtypes.bfloat16)),
    "float16": ("F16", np.dtype(np.float16)),
}


class _Tensor(NamedTuple):
    name: str
    rule: Rule
    place: tuple[int, ...]
    """Its index in our arrays."""
    shape: tuple[int, ...]

    def size(self, dtype: np.dtype) -> Bytes:
        return int(np.prod(self.shape, dtype=np.int64)) * dtype.itemsize


class ModelArrays:
    """The arrays of a model by path, with zeros for those that only the files have."""

    def __init__(self, model: Any, family: HubFamily):
        """Look at the model; nothing is copied."""
        full = abstract_model(family.stored_as(model.config))
        self.shapes = {path: leaf.shape for path, leaf in leaves_by_path(full).items()}
        self._leaves = leaves_by_path(model)

    def part(self, path: str, index: tuple[int, ...], rows: int | None, dtype: Any) -> np.ndarray:
        """One array, or one layer of it, on this host and without its padding."""
        if path not in self._leaves:
            return np.zeros(self.shapes[path][len(index) :], dtype)
        leaf = self._leaves[path]
        # A whole array on a CPU is seen without a copy; elsewhere NumPy's copy of it would be kept.
        whole = isinstance(leaf, np.ndarray) or {d.platform for d in leaf.devices()} == {"cpu"}
        single = isinstance(leaf, np.ndarray) or len(leaf.devices()) == 1
        values = np.asarray(leaf)[index] if whole and single else np.asarray(leaf[index])
        with np.errstate(over="ignore"):  # what is too large is looked for where it matters
            part: np.ndarray = values[:rows].astype(dtype, copy=False)
        return part

    def fits(self, path: str, index: tuple[int, ...], part: np.ndarray) -> bool:
        """Whether ``part``, of the same place, is finite wherever the model is."""
        leaf = self._leaves.get(path)
        if leaf is None or leaf.dtype == part.dtype or np.isfinite(part).all():
            return True
        ours = self.part(path, index, len(part), leaf.dtype)
        return bool(np.array_equal(np.isfinite(ours), np.isfinite(part)))


def write_weights(
    model: Any,
    family: HubFamily,
    directory: Path,
    *,
    dtype: str = "float32",
    max_shard_size: Bytes = SHARD_SIZE,
) -> list[Path]:
    """Write a model's tensors as transformers names them, and an index if they fill many files.

    Args:
        model: ours.
        family: what it is written as.
        directory: where to.
        dtype: of the stored values.
        max_shard_size: most that a file holds; a larger tensor has a file of its own.

    Returns:
        The files, without the index.

    Raises:
        JaxLMError: finite values are too large for the dtype; every such tensor is named.
    """
    arrays = ModelArrays(model, family)
    table = family.table(model.config)
    tensors = [
        _Tensor(table.written_name(rule, name), rule, index, shape)
        for rule, name, index, shape in their_tensors(table, arrays.shapes)
    ]
    shards = list(_shards(tensors, STORED_DTYPES[dtype][1], max_shard_size))
    names = [_shard_name(number, len(shards)) for number in range(len(shards))]
    too_large = [
        tensor
        for name, shard in zip(names, shards, strict=True)
        for tensor in _write_file(directory / name, shard, arrays, dtype)
    ]
    if too_large:
        raise JaxLMError(
            f"{dtype} holds numbers up to {_largest(dtype):.6g}, and these tensors have larger "
            f"ones: {', '.join(too_large)}; export in {_roomier(dtype)}"
        )
    if len(shards) > 1:
        _write_index(directory / INDEX_FILE, dict(zip(names, shards, strict=True)), dtype)
    return [directory / name for name in names]


def differing_arrays(model: Any, family: HubFamily, stored: StoredWeights) -> list[str]:
    """Arrays whose stored values are not, bit by bit, the model's in the stored dtype."""
    arrays = ModelArrays(model, family)
    return [path for path in arrays.shapes if not _stored_alike(path, arrays, stored)]


def _stored_alike(path: str, arrays: ModelArrays, stored: StoredWeights) -> bool:
    for index, values in stored.slices(path):
        ours = arrays.part(path, index, len(values), values.dtype)
        bits = np.dtype(f"u{values.dtype.itemsize}")
        if not np.array_equal(ours.view(bits), values.view(bits)):
            return False
    return True


def _shards(
    tensors: list[_Tensor], dtype: np.dtype, max_shard_size: Bytes
) -> Iterator[list[_Tensor]]:
    shard: list[_Tensor] = []
    filled = 0
    for tensor in tensors:
        size = tensor.size(dtype)
        if shard and filled + size > max_shard_size:
            yield shard
            shard, filled = [], 0
        shard.append(tensor)
        filled += size
    yield shard


def _shard_name(number: int, count: int) -> str:
    return SINGLE_FILE if count == 1 else f"model-{number + 1:05d}-of-{count:05d}.safetensors"


def _largest(dtype: str) -> float:
    return float(ml_dtypes.finfo(STORED_DTYPES[dtype][1]).max)


def _roomier(dtype: str) -> str:
    return " or ".join(other for other in STORED_DTYPES if _largest(other) > _largest(dtype))


def _write_file(path: Path, tensors: list[_Tensor], arrays: ModelArrays, dtype: str) -> list[str]:
    """Write one file; gives the tensors with values that are too large for the dtype."""
    stored, kind = STORED_DTYPES[dtype]
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    start = 0
    for tensor in tensors:
        end = start + tensor.size(kind)
        header[tensor.name] = {"dtype": stored, "shape": tensor.shape, "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the values after it are aligned
    too_large = []
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, rule, index, _ in tensors:
            rows = rule.transform.rows
            ours = {path: arrays.part(path, index, rows, kind) for path in rule.our_paths}
            if not all(arrays.fits(path, index, part) for path, part in ours.items()):
                too_large.append(name)
            theirs = np.ascontiguousarray(rule.transform.to_theirs(tuple(ours.values())))
            file.write(theirs.reshape(-1).view(np.uint8).data)
    return too_large


def _write_index(path: Path, shards: Mapping[str, list[_Tensor]], dtype: str) -> None:
    kind = STORED_DTYPES[dtype][1]
    tensors = [(tensor, name) for name, shard in shards.items() for tensor in shard]
    index = {
        "metadata": {"total_size": sum(tensor.size(kind) for tensor, _ in tensors)},
        "weight_map": {tensor.name: name for tensor, name in tensors},
    }
    path.write_text(json.dumps(index, indent=2, sort_keys=True) + "\n", encoding="utf-8")

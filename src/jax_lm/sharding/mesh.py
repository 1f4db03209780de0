"""The mesh of devices, from four numbers."""

import math
from dataclasses import dataclass

import jax
from jax.sharding import AxisType, Mesh

from jax_lm.errors import UsageError

DATA, FSDP, TENSOR, SEQUENCE = MESH_AXES = ("data", "fsdp", "tensor", "sequence")


@dataclass(frozen=True, kw_only=True)
class MeshConfig:
    """How devices share the work; the numbers multiply to the number of devices."""

    data: int = -1
    """Groups of devices with the whole model each, on different rows; -1: as many as are left."""
    fsdp: int = 1
    """Devices that split rows, parameters, gradients and optimizer state between them."""
    tensor: int = 1
    """Devices that split heads, feed-forward layers and vocabulary between them."""
    sequence: int = 1
    """Devices that split the positions of a row between them."""
    rules: tuple[str, ...] = ()
    """Where else an axis of parameters is split, as in kv_heads=none or embed=fsdp+tensor."""

    def __post_init__(self) -> None:
        """Refuse sizes that are none."""
        for axis in MESH_AXES:
            size = getattr(self, axis)
            if size < 1 and not (axis == DATA and size == -1):
                raise UsageError(f"--mesh.{axis} is {size}, expected 1 or more")


def mesh_shape(config: MeshConfig, num_devices: int) -> dict[str, int]:
    """Devices along every axis.

    Raises:
        UsageError: the numbers do not multiply to ``num_devices``.
    """
    shape = {axis: getattr(config, axis) for axis in MESH_AXES}
    others = math.prod(size for axis, size in shape.items() if axis != DATA)
    if shape[DATA] == -1:
        if num_devices % others:
            asked = " x ".join(f"--mesh.{axis} {size}" for axis, size in shape.items() if size > 1)
            raise UsageError(f"{asked} does not divide the {num_devices} devices that there are")
        shape[DATA] = num_devices // others
    if math.prod(shape.values()) != num_devices:
        asked = " x ".join(f"--mesh.{axis} {size}" for axis, size in shape.items() if size != 1)
        raise UsageError(
            f"{asked or '--mesh.data 1'} asks for {math.prod(shape.values())} devices, and there "
            f"are {num_devices}"
        )
    return shape


def make_mesh(config: MeshConfig | None = None) -> Mesh:
    """All devices of all hosts; None: all on the ``data`` axis.

    Axes are Auto: `jax.make_mesh` makes Explicit ones by default, under which plain einsums ask
    for shardings of their own.

    Raises:
        UsageError: the numbers do not multiply to the number of devices.
    """
    shape = mesh_shape(config or MeshConfig(), jax.device_count())
    types = (AxisType.Auto,) * len(shape)
    return jax.make_mesh(tuple(shape.values()), tuple(shape), axis_types=types)


def row_shards(mesh: Mesh) -> int:
    """Parts that the rows of a batch are split into."""
    return int(mesh.shape[DATA] * mesh.shape[FSDP])

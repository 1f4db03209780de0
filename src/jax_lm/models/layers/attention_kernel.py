"""Which kernel computes attention, and why: a function of the platform and of what is asked."""

import functools
from collections.abc import Mapping
from typing import Literal, NamedTuple

import jax

from jax_lm.models.layers.mask import AttentionMask, causal_mask


class Platform(NamedTuple):
    """What attention runs on."""

    backend: str
    """``cpu``, ``gpu`` or ``tpu``."""
    capability: tuple[int, int] | None = None
    """Compute capability of an NVIDIA GPU; None: something else."""
    devices: int = 1
    """Devices of all hosts together."""
    mesh: Mapping[str, int] | None = None
    """Devices along each axis of the mesh that is set; None: none is."""

    def along(self, axis: str) -> int:
        """Devices along an axis of the mesh."""
        return 1 if self.mesh is None else self.mesh.get(axis, 1)


class Kernel(NamedTuple):
    """What computes attention, and why."""

    name: Literal["cudnn", "pallas", "xla"]
    why: str

    def __str__(self) -> str:
        """As logged and as shown by ``jax-lm doctor``."""
        return f"{KERNEL_NAMES[self.name]} ({self.why})"


KERNEL_NAMES = {
    "cudnn": "cuDNN flash attention",
    "pallas": "Pallas flash attention",
    "xla": "XLA einsum",
}
POSITIONS_SPLIT = "positions are split over devices"


class Request(NamedTuple):
    """What is asked of a kernel, apart from the numbers."""

    query: tuple[int, ...]
    """``[batch heads seq head_dim]``"""
    key: tuple[int, ...]
    """``[batch kv_heads slots head_dim]``"""
    dtype: str
    mask: AttentionMask
    bias: bool = False
    dropout: bool = False


def kernel_for(on: Platform, request: Request) -> Kernel:
    """The kernel that computes ``request`` fastest on ``on``; a pure function of both."""
    if on.backend == "gpu" and on.capability is not None:
        refusal = _why_not_cudnn(on, request)
        how = "dense mask" if needs_dense(request.mask) else "structural mask"
        return Kernel("xla", refusal) if refusal else Kernel("cudnn", how)
    if on.backend == "tpu":
        refusal = _why_not_pallas(on, request)
        return Kernel("xla", refusal) if refusal else Kernel("pallas", "blocks of 128 and more")
    return Kernel("xla", f"no flash attention for the backend {on.backend!r}")


def usual_kernel() -> Kernel:
    """What computes causal attention here in bfloat16: GPT-2's heads over 1,024 tokens."""
    shape = (1, 12, 1024, 64)
    return kernel_for(platform(), Request(shape, shape, "bfloat16", causal_mask()))


def needs_dense(mask: AttentionMask) -> bool:
    """Whether the mask is more than causal order and a window from slot 0 on."""
    return mask.key_segments is not None or mask.query_slots is not None


def hiding_window(mask: AttentionMask, slots: int) -> int | None:
    """The window, where it hides anything."""
    return mask.window if mask.window is not None and mask.window < slots else None


def _why_not_cudnn(on: Platform, request: Request) -> str | None:
    """What cuDNN's flash attention lacks, as jax.nn.dot_product_attention documents and checks."""
    seq, head_dim = request.query[-2:]
    capability = on.capability or (0, 0)
    slots, widest = request.key[-2], 256 if capability >= (9, 0) else 128
    dense, window = needs_dense(request.mask), hiding_window(request.mask, slots)
    split = [heads % on.along("tensor") == 0 for heads in (request.query[1], request.key[1])]
    refusals = {
        "cuDNN flash attention needs compute capability 8.0": capability < (8, 0),
        f"cuDNN flash attention needs bfloat16 or float16, not {request.dtype}": request.dtype
        not in ("bfloat16", "float16"),
        f"head_dim {head_dim} is not a multiple of 8 up to {widest}": head_dim % 8 > 0
        or head_dim > widest,
        POSITIONS_SPLIT: on.along("sequence") > 1,
        "heads of queries split over devices, those of keys not": split[0] != split[1],
        "dropout on attention weights": request.dropout,
        "keys come from a cache": request.mask.query_slots is not None,
        "a bias and a dense mask together": request.bias and dense,
        "a window without causal order": window is not None and not request.mask.causal,
        "a bias and a window together": request.bias and window is not None,
        f"a dense mask or bias of odd length, {seq} x {slots}": (request.bias or dense)
        and (seq % 2 > 0 or slots % 2 > 0),
    }
    return next((text for text, holds in refusals.items() if holds), None)


def _why_not_pallas(on: Platform, request: Request) -> str | None:
    """What JAX's flash attention for TPUs lacks."""
    seq, head_dim = request.query[-2:]
    slots = request.key[-2]
    refusals = {
        "several devices, and no mesh to split a Mosaic kernel over": on.devices > 1
        and on.mesh is None,
        POSITIONS_SPLIT: on.along("sequence") > 1,
        "dropout on attention weights": request.dropout,
        "an additive bias": request.bias,
        "keys come from a cache": request.mask.query_slots is not None,
        "a sliding window": hiding_window(request.mask, slots) is not None,
        "groups of query heads": request.query[1] != request.key[1],
        f"head_dim {head_dim} is neither 64 nor a multiple of 128": head_dim != 64
        and head_dim % 128 > 0,
        f"lengths {seq} x {slots} are no multiples of 128": seq % 128 > 0 or slots % 128 > 0,
    }
    return next((text for text, holds in refusals.items() if holds), None)


def platform() -> Platform:
    """Where this process computes, under the mesh that is set."""
    mesh = jax.sharding.get_abstract_mesh()
    return _hardware()._replace(mesh=None if mesh.empty else dict(mesh.shape))


@functools.cache
def _hardware() -> Platform:
    device = jax.devices()[0]
    capability = None
    if device.platform == "gpu" and "cuda" in device.client.platform_version:
        major, minor = str(device.compute_capability).split(".")
        capability = (int(major), int(minor))
    return Platform(device.platform, capability, jax.device_count())

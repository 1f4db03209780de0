"""Scaled dot-product attention, by the fastest kernel that computes exactly what was asked."""

import dataclasses
import functools
import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jax_lm.models.layers.dropout import DropoutKey, dropout
from jax_lm.models.layers.mask import AttentionMask, causal_mask

_log = logging.getLogger(__name__)

Wrapper = Callable[[Callable[..., Array]], Callable[..., Array]]
_wrapper: ContextVar[Wrapper | None] = ContextVar("wrapper", default=None)

HIDDEN = 0.5 * float(jnp.finfo(jnp.float32).min)
"""Added to the scores of what must not be seen: absorbs any score, and does not overflow."""


class Platform(NamedTuple):
    """What attention runs on."""

    backend: str
    """``cpu``, ``gpu`` or ``tpu``."""
    capability: tuple[int, int] | None = None
    """Compute capability of an NVIDIA GPU; None: something else."""
    devices: int = 1
    """Devices of all hosts together."""


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


def attend(
    query: Float[Array, "batch heads seq head_dim"],
    key: Float[Array, "batch kv_heads slots head_dim"],
    value: Float[Array, "batch kv_heads slots head_dim"],
    mask: AttentionMask,
    *,
    scale: float | None = None,
    bias: Float[Array, "#batch heads seq slots"] | None = None,
    dropout_rate: float = 0.0,
    dropout_key: DropoutKey | None = None,
) -> Float[Array, "batch heads seq head_dim"]:
    """``softmax(query key^T * scale + bias) value`` (Vaswani et al. 2017, arXiv:1706.03762).

    Softmax in float32. With fewer key than query heads, equal groups of query heads share a key
    head (Ainslie et al. 2023, arXiv:2305.13245). The kernel is logged, each choice once.

    Args:
        query: heads come before positions, so that on a CPU all products are plain batched ones.
        key: as many heads as ``query``, or a divisor of that.
        value: as ``key``.
        mask: who sees whom; a query that sees nothing gets the mean of all values.
        scale: of the scores; None: 1 / sqrt(head_dim).
        bias: added to the scaled scores.
        dropout_rate: of attention weights.
        dropout_key: None: no dropout.
    """
    drop = dropout_rate > 0.0 and dropout_key is not None
    request = Request(query.shape, key.shape, str(query.dtype), mask, bias is not None, drop)
    kernel = kernel_for(platform(), request)
    _say(kernel)
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    if kernel.name == "cudnn":
        return _cudnn(query, key, value, mask, scale, bias)
    if kernel.name == "pallas":
        return _pallas(query, key, value, mask, scale)
    einsum = partial(_einsum, scale=scale, dropout_rate=dropout_rate)
    wrap = _wrapper.get()
    return (wrap(einsum) if wrap else einsum)(query, key, value, mask, bias, dropout_key)


@contextmanager
def attention_wrapped(wrap: Wrapper | None) -> Iterator[None]:
    """What is traced inside has ``wrap`` around the plain products of attention.

    With `jax.checkpoint`, the backward pass recomputes scores and weights. Flash attention never
    keeps them, and is left as it is.
    """
    token = _wrapper.set(wrap)
    try:
        yield
    finally:
        _wrapper.reset(token)


def kernel_for(on: Platform, request: Request) -> Kernel:
    """The kernel that computes ``request`` fastest on ``on``; a pure function of both."""
    if on.backend == "gpu" and on.capability is not None:
        refusal = _why_not_cudnn(on.capability, request)
        how = "dense mask" if _needs_dense(request.mask) else "structural mask"
        return Kernel("xla", refusal) if refusal else Kernel("cudnn", how)
    if on.backend == "tpu":
        refusal = _why_not_pallas(on, request)
        return Kernel("xla", refusal) if refusal else Kernel("pallas", "blocks of 128 and more")
    return Kernel("xla", f"no flash attention for the backend {on.backend!r}")


def usual_kernel() -> Kernel:
    """What computes causal attention here in bfloat16: GPT-2's heads over 1,024 tokens."""
    shape = (1, 12, 1024, 64)
    return kernel_for(platform(), Request(shape, shape, "bfloat16", causal_mask()))


def _needs_dense(mask: AttentionMask) -> bool:
    """Whether the mask is more than causal order and a window from slot 0 on."""
    return mask.key_segments is not None or mask.query_slots is not None


def _window(mask: AttentionMask, slots: int) -> int | None:
    """The window, where it hides anything."""
    return mask.window if mask.window is not None and mask.window < slots else None


def _why_not_cudnn(capability: tuple[int, int], request: Request) -> str | None:
    """What cuDNN's flash attention lacks, as jax.nn.dot_product_attention documents and checks."""
    seq, head_dim = request.query[-2:]
    slots, widest = request.key[-2], 256 if capability >= (9, 0) else 128
    dense, window = _needs_dense(request.mask), _window(request.mask, slots)
    refusals = {
        "cuDNN flash attention needs compute capability 8.0": capability < (8, 0),
        f"cuDNN flash attention needs bfloat16 or float16, not {request.dtype}": request.dtype
        not in ("bfloat16", "float16"),
        f"head_dim {head_dim} is not a multiple of 8 up to {widest}": head_dim % 8 > 0
        or head_dim > widest,
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
        "a Mosaic kernel is not split over devices": on.devices > 1,
        "dropout on attention weights": request.dropout,
        "an additive bias": request.bias,
        "keys come from a cache": request.mask.query_slots is not None,
        "a sliding window": _window(request.mask, slots) is not None,
        "groups of query heads": request.query[1] != request.key[1],
        f"head_dim {head_dim} is neither 64 nor a multiple of 128": head_dim != 64
        and head_dim % 128 > 0,
        f"lengths {seq} x {slots} are no multiples of 128": seq % 128 > 0 or slots % 128 > 0,
    }
    return next((text for text, holds in refusals.items() if holds), None)


@functools.cache
def platform() -> Platform:
    """Where this process computes."""
    device = jax.devices()[0]
    capability = None
    if device.platform == "gpu" and "cuda" in device.client.platform_version:
        major, minor = str(device.compute_capability).split(".")
        capability = (int(major), int(minor))
    return Platform(device.platform, capability, jax.device_count())


@functools.cache
def _say(kernel: Kernel) -> None:
    _log.info("attention: %s", kernel)


def _einsum(
    query: Float[Array, "batch heads seq head_dim"],
    key: Float[Array, "batch kv_heads slots head_dim"],
    value: Float[Array, "batch kv_heads slots head_dim"],
    mask: AttentionMask,
    bias: Float[Array, "#batch heads seq slots"] | None,
    dropout_key: DropoutKey | None,
    *,
    scale: float,
    dropout_rate: float,
) -> Float[Array, "batch heads seq head_dim"]:
    """Plain products; the queries of a group are more rows for its key head, which stays one."""
    batch, heads, seq, head_dim = query.shape
    kv_heads, slots = key.shape[1:3]
    rows = query.reshape(batch, kv_heads, heads // kv_heads * seq, head_dim)
    scores = jnp.einsum("bhtd,bhsd->bhts", rows, key, preferred_element_type=jnp.float32)
    scores = scale * scores.reshape(batch, heads, seq, slots)
    if bias is not None:
        scores = scores + bias
    allowed = mask.dense(seq, slots)
    if allowed is not None:
        # Added, not selected: the backward pass then needs no mask of the scores' size.
        scores = scores + jnp.where(allowed, 0.0, HIDDEN)[:, None]
    weights = _softmax(scores).astype(value.dtype)
    weights = dropout(weights, dropout_rate, dropout_key)
    weights = weights.reshape(batch, kv_heads, heads // kv_heads * seq, slots)
    return jnp.einsum("bhts,bhsd->bhtd", weights, value).reshape(query.shape)


@jax.custom_jvp
def _softmax(scores: Float[Array, "*rest slots"]) -> Float[Array, "*rest slots"]:
    """Over the last axis; the backward pass keeps the weights and nothing else of this size."""
    exponentials = jnp.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


@_softmax.defjvp
def _softmax_derivative(
    scores: tuple[Array], tangents: tuple[Array]
) -> tuple[Float[Array, "*rest slots"], Float[Array, "*rest slots"]]:
    weights = _softmax(scores[0])
    moved = weights * tangents[0]
    return weights, moved - weights * moved.sum(axis=-1, keepdims=True)


def _cudnn(
    query: Float[Array, "batch heads seq head_dim"],
    key: Float[Array, "batch kv_heads slots head_dim"],
    value: Float[Array, "batch kv_heads slots head_dim"],
    mask: AttentionMask,
    scale: float,
    bias: Float[Array, "#batch heads seq slots"] | None,
) -> Float[Array, "batch heads seq head_dim"]:
    """Order and window as rules, so that blocks which see nothing are never computed."""
    seq, slots = query.shape[-2], key.shape[-2]
    allowed = mask.dense(seq, slots) if _needs_dense(mask) else None
    window = _window(mask, slots) if allowed is None else None
    if allowed is not None:
        allowed = jnp.broadcast_to(allowed, (query.shape[0], seq, slots))[:, None]
    attended = jax.nn.dot_product_attention(
        query.swapaxes(1, 2),
        key.swapaxes(1, 2),
        value.swapaxes(1, 2),
        bias=None if bias is None else bias.astype(query.dtype),
        mask=allowed,
        scale=scale,
        is_causal=mask.causal and allowed is None,
        # Of the window's positions, our count has the query's own; theirs is what lies left of it.
        local_window_size=None if window is None else (window - 1, 0),
        implementation="cudnn",
    )
    return attended.swapaxes(1, 2)


def _pallas(
    query: Float[Array, "batch heads seq head_dim"],
    key: Float[Array, "batch heads slots head_dim"],
    value: Float[Array, "batch heads slots head_dim"],
    mask: AttentionMask,
    scale: float,
) -> Float[Array, "batch heads seq head_dim"]:
    """JAX's flash attention for TPUs (after Dao et al. 2022, arXiv:2205.14135)."""
    from jax.experimental.pallas.ops.tpu import flash_attention as flash

    segments, keys = None, mask.key_segments
    if keys is not None and mask.query_segments is not None:
        segments = flash.SegmentIds(mask.query_segments, keys)
    elif keys is not None:  # cross-attention: every query is of the one segment that is real
        ones = jnp.ones((query.shape[0], query.shape[2]), jnp.int32)
        segments = flash.SegmentIds(ones, (keys > 0).astype(jnp.int32))
    attended: Array = flash.flash_attention(
        query,
        key,
        value,
        segment_ids=segments,
        causal=mask.causal,
        sm_scale=scale,
        block_sizes=_blocks(query.shape[2], key.shape[2]),
    )
    return attended


def _blocks(seq: int, slots: int) -> Any:
    """Square blocks, as large as divide both lengths, up to 512 (the default, 128, is slow)."""
    from jax.experimental.pallas.ops.tpu import flash_attention as flash

    side = math.gcd(seq, slots, 512)
    fields = [field.name for field in dataclasses.fields(flash.BlockSizes)]
    return flash.BlockSizes(**{name: 1 if name == "block_b" else side for name in fields})

"""Scaled dot-product attention, by the fastest kernel that computes exactly what was asked."""

import dataclasses
import functools
import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec
from jaxtyping import Array, Float

from jax_lm.models.layers.attention_kernel import (
    Kernel,
    Request,
    hiding_window,
    kernel_for,
    needs_dense,
    platform,
)
from jax_lm.models.layers.dropout import DropoutKey, dropout
from jax_lm.models.layers.mask import AttentionMask
from jax_lm.models.layers.placement import ACTIVATIONS, partition

_log = logging.getLogger(__name__)

Wrapper = Callable[[Callable[..., Array]], Callable[..., Array]]
_wrapper: ContextVar[Wrapper | None] = ContextVar("wrapper", default=None)

HIDDEN = 0.5 * float(jnp.finfo(jnp.float32).min)
"""Added to the scores of what must not be seen: absorbs any score, and does not overflow."""


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
    allowed = mask.dense(seq, slots) if needs_dense(mask) else None
    window = hiding_window(mask, slots) if allowed is None else None
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
    """JAX's flash attention for TPUs (after Dao et al. 2022, arXiv:2205.14135).

    XLA cannot split a kernel: each device of a mesh is told to compute its rows and heads.
    """
    from jax.experimental.pallas.ops.tpu import flash_attention as flash

    def of_share(query: Array, key: Array, value: Array, queries: Any, keys: Any) -> Array:
        if keys is not None and queries is None:  # cross-attention: one segment is real
            queries = jnp.ones((query.shape[0], query.shape[2]), jnp.int32)
            keys = (keys > 0).astype(jnp.int32)
        attended: Array = flash.flash_attention(
            query,
            key,
            value,
            segment_ids=None if keys is None else flash.SegmentIds(queries, keys),
            causal=mask.causal,
            sm_scale=scale,
            block_sizes=_blocks(query.shape[2], key.shape[2]),
        )
        return attended

    arrays = query, key, value, mask.query_segments, mask.key_segments
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.size > 1:
        specs = tuple(_share(array) for array in arrays)
        return jax.shard_map(of_share, in_specs=specs, out_specs=specs[0], check_vma=False)(*arrays)
    return of_share(*arrays)


def _share(array: Array | None) -> PartitionSpec | None:
    """Which part of queries, keys, values or segment ids each device of the mesh has."""
    if array is None:
        return None
    axes = (
        ["batch", "positions"] if array.ndim == 2 else ["batch", "heads", "positions", "head_dim"]
    )
    mesh = jax.sharding.get_abstract_mesh()
    return partition(axes, array.shape, ACTIVATIONS, dict(mesh.shape))


def _blocks(seq: int, slots: int) -> Any:
    """Square blocks, as large as divide both lengths, up to 512 (the default, 128, is slow)."""
    from jax.experimental.pallas.ops.tpu import flash_attention as flash

    side = math.gcd(seq, slots, 512)
    fields = [field.name for field in dataclasses.fields(flash.BlockSizes)]
    return flash.BlockSizes(**{name: 1 if name == "block_b" else side for name in fields})

"""Rotary position embeddings (Su et al. 2021, arXiv:2104.09864)."""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jax_lm.errors import UsageError

Scaling = Literal["none", "linear", "llama3"]


@dataclass(frozen=True, kw_only=True)
class RotaryConfig:
    """How fast each pair of channels turns, and how that is stretched for longer contexts."""

    base: float = 10_000.0
    """Pair i of n turns by base^(-i / n) radians a position."""
    scaling: Scaling = "none"
    """Slower turning, for contexts longer than those of the first training: ``linear`` all pairs
    alike, ``llama3`` only those that turn slowly."""
    factor: float = 1.0
    """How many times slower."""
    low_frequency_factor: float = 1.0
    """llama3: pairs that turn less often than this within ``original_context`` are slowed down."""
    high_frequency_factor: float = 4.0
    """llama3: pairs that turn more often than this are left alone; those between, in between."""
    original_context: int = 8192
    """llama3: context length of the first training, in tokens."""

    def __post_init__(self) -> None:
        """Refuse what gives no angles."""
        for name in ("base", "factor", "original_context"):
            if getattr(self, name) <= 0:
                raise UsageError(f"rotary {name} is {getattr(self, name)}, expected more than 0")
        if not 0 < self.low_frequency_factor < self.high_frequency_factor:
            raise UsageError(
                f"rotary low_frequency_factor is {self.low_frequency_factor}, expected more than "
                f"0 and less than high_frequency_factor ({self.high_frequency_factor})"
            )


class Rotation(NamedTuple):
    """Cosine and sine of the angle by which each pair of channels turns, in float32."""

    cos: Float[Array, "#batch seq pairs"]
    sin: Float[Array, "#batch seq pairs"]


def frequencies(rotary_dim: int, base: float = 10_000.0) -> Float[Array, "pairs"]:
    """Angle a position for each of ``rotary_dim / 2`` pairs: base^(-2i / rotary_dim)."""
    # Never compiled: XLA folds constants with other roundings than the float32 operations that
    # published models were trained with, and far positions multiply the difference.
    with jax.ensure_compile_time_eval():
        return 1.0 / base ** (jnp.arange(0, rotary_dim, 2, dtype=jnp.float32) / rotary_dim)


def scaled_frequencies(rotary_dim: int, config: RotaryConfig) -> Float[Array, "pairs"]:
    """``frequencies``, slowed down as ``config`` says.

    Linear: Chen et al. 2023 (arXiv:2306.15595). llama3: the reference code of Llama 3.1
    (Grattafiori et al. 2024, arXiv:2407.21783).
    """
    angles = frequencies(rotary_dim, config.base)
    if config.scaling == "none":
        return angles
    with jax.ensure_compile_time_eval():
        slow = angles / config.factor
        if config.scaling == "linear":
            return slow
        turns = config.original_context / (2 * math.pi / angles)
        low, high = config.low_frequency_factor, config.high_frequency_factor
        share = jnp.clip((turns - low) / (high - low), 0.0, 1.0)
        return (1 - share) * slow + share * angles


def rotation(positions: Int[Array, "#batch seq"], angles: Float[Array, "pairs"]) -> Rotation:
    """The turns of each position; ``angles`` are those of one position."""
    turned = positions[:, :, None].astype(jnp.float32) * angles[None, None, :]
    return Rotation(jnp.cos(turned), jnp.sin(turned))


def rotate(
    x: Float[Array, "batch heads seq head_dim"], rotation: Rotation, *, interleaved: bool
) -> Float[Array, "batch heads seq head_dim"]:
    """Turn pairs of channels; channels beyond those that ``rotation`` has stay as they are.

    Args:
        x: queries or keys.
        rotation: of each position.
        interleaved: pairs are neighbours (0, 1), (2, 3) ... as in GPT-J; else a channel of the
            first half and its counterpart in the second, as in GPT-NeoX and LLaMA's files.
    """
    pairs = rotation.cos.shape[-1]
    cos, sin = rotation.cos[:, None], rotation.sin[:, None]
    turning, still = x[..., : 2 * pairs].astype(jnp.float32), x[..., 2 * pairs :]
    if interleaved:
        a, b = turning[..., ::2], turning[..., 1::2]
        turned = jnp.stack([a * cos - b * sin, b * cos + a * sin], axis=-1).reshape(turning.shape)
    else:
        a, b = turning[..., :pairs], turning[..., pairs:]
        turned = jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
    return jnp.concatenate([turned.astype(x.dtype), still], axis=-1)

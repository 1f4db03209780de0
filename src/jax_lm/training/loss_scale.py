"""Dynamic loss scaling: gradients in float16 neither vanish nor overflow."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

INITIAL_SCALE = 2.0**16
GROWTH_STEPS = 2000
"""Finite steps in a row after which the scale doubles."""


class LossScale(eqx.Module):
    """What the loss is multiplied by (Micikevicius et al. 2018, arXiv:1710.03740)."""

    value: Float[Array, ""]
    finite_steps: Int[Array, ""]
    """In a row, since the scale last changed."""

    @staticmethod
    def init() -> "LossScale":
        """Large: the first steps find what gradients bear."""
        return LossScale(jnp.float32(INITIAL_SCALE), jnp.int32(0))

    def after(self, finite: Bool[Array, ""]) -> "LossScale":
        """Half of it after a step that overflowed, at least 1; twice after enough that did not."""
        grown = self.finite_steps + 1 >= GROWTH_STEPS
        changed = jnp.where(
            finite,
            jnp.where(grown, 2.0 * self.value, self.value),
            jnp.maximum(1.0, 0.5 * self.value),
        )
        count = jnp.where(finite & ~grown, self.finite_steps + 1, 0)
        return LossScale(changed, count.astype(jnp.int32))

    @property
    def is_least(self) -> Bool[Array, ""]:
        """Whether a smaller scale is not to be had, so that an overflow means divergence."""
        return self.value <= 1.0

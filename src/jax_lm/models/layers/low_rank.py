"""Products with weights that may have low-rank factors beside them."""

from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Tree = TypeVar("Tree")


class LowRank(eqx.Module):
    """``weight + scale * a b`` in the place of a weight (Hu et al. 2021, arXiv:2106.09685).

    The sum is never made where a product with it is wanted: what is small goes through the factors
    and is added to the weight's own product, so that neither rounding in bfloat16 swallows a small
    change, nor memory holds the sum or its gradient.
    """

    weight: Float[Array, "..."]
    a: Float[Array, "..."]
    """The weight's first axes, then the rank's."""
    b: Float[Array, "..."]
    """The rank's axis, then the weight's other axes."""
    scale: float = eqx.field(static=True)

    def __getitem__(self, rows: Any) -> Float[Array, "..."]:
        """Rows of a table, as those of an array."""
        low = self.scale * jnp.einsum("...r,re->...e", self.a[rows], self.b)
        return self.weight[rows] + low.astype(self.weight.dtype)

    def whole(self) -> Float[Array, "..."]:
        """The sum, of every layer where the weight is a stack; added in float32."""
        stacked = self.a.ndim + self.b.ndim > self.weight.ndim + 2
        product = jax.vmap(_product) if stacked else _product
        total = self.weight.astype(jnp.float32) + self.scale * product(self.a, self.b)
        return total.astype(self.weight.dtype)


def contract(
    subscripts: str, x: Float[Array, "..."], weight: Float[Array, "..."] | LowRank
) -> Float[Array, "..."]:
    """``jnp.einsum`` of activations and a weight with or without factors.

    Args:
        subscripts: two operands and the result, as in ``"bte,ehd->bhtd"``; without the letter r.
        x: activations.
        weight: summed over all of its first axes or all of its last ones.
    """
    if not isinstance(weight, LowRank):
        return jnp.einsum(subscripts, x, weight)
    operands, result = subscripts.split("->")
    of_x, of_weight = operands.split(",")
    cut = weight.a.ndim - 1
    near, far = (of_weight[:cut] + "r", weight.a), ("r" + of_weight[cut:], weight.b)
    if of_weight[0] in result:
        near, far = far, near
    small = "".join(letter for letter in of_x if letter in result) + "r"
    low = jnp.einsum(f"{of_x},{near[0]}->{small}", x, near[1])
    low = jnp.einsum(f"{small},{far[0]}->{result}", low, far[1])
    return jnp.einsum(subscripts, x, weight.weight) + weight.scale * low


def merged(tree: Tree) -> Tree:
    """``tree`` with plain weights only: the sums where there were factors."""
    plain: Tree = jax.tree.map(
        lambda node: node.whole() if isinstance(node, LowRank) else node,
        tree,
        is_leaf=lambda node: isinstance(node, LowRank),
    )
    return plain


def _product(a: Float[Array, "..."], b: Float[Array, "..."]) -> Float[Array, "..."]:
    return jnp.tensordot(a, b, axes=1, preferred_element_type=jnp.float32)

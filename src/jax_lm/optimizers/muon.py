"""Muon for matrices, AdamW's direction for all else."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import optax
from optax.contrib import MuonDimensionNumbers, scale_by_muon

from jax_lm.optimizers.matrices import find_matrices, sides
from jax_lm.optimizers.patterns import dotted

ADAMW_RMS = 0.2
"""Root mean square of AdamW's updates in practice, which Muon's are scaled to, so that learning
rate and weight decay of AdamW serve both (Liu et al. 2025, arXiv:2502.16982, section 2.2)."""


def scale_by_muon_or_adam(
    *,
    momentum: float,
    nesterov: bool,
    adam: optax.GradientTransformation,
    epsilon: float,
    moment_dtype: jnp.dtype[Any],
) -> optax.GradientTransformation:
    """Orthogonalised momentum for matrices (Jordan et al. 2024, kellerjordan.github.io/posts/muon).

    Every layer of a stack is a matrix of its own, and so are queries, keys and values; the axes
    of heads count as one. Embeddings, the output matrix, biases and norms go by ``adam``, as its
    author has it.

    Args:
        momentum: decay of the momentum.
        nesterov: look ahead along it.
        adam: the direction of what is no matrix.
        epsilon: added to a matrix's norm before it is divided by that.
        moment_dtype: of the momentum.
    """
    muon = optax.chain(
        scale_by_muon(
            beta=momentum,
            eps=epsilon,
            mu_dtype=moment_dtype,
            nesterov=nesterov,
            weight_dimension_numbers=_dimensions,
        ),
        optax.stateless(lambda updates, _params: _as_large_as_adamw(updates)),
    )
    return optax.partition({"muon": muon, "adam": adam}, _labels)


def _labels(params: Any) -> Any:
    matrices = find_matrices(params)
    return jax.tree_util.tree_map_with_path(
        lambda path, _: "muon" if dotted(path) in matrices else "adam", params
    )


def _dimensions(params: Any) -> Any:
    """For a tree of matrices alone; all else is masked out of it."""
    matrices = find_matrices(params)
    return jax.tree_util.tree_map_with_path(
        lambda path, _: MuonDimensionNumbers(*matrices[dotted(path)]), params
    )


def _as_large_as_adamw(updates: Any) -> Any:
    """Orthogonal matrices times what gives them the root mean square of ADAMW_RMS."""
    matrices = find_matrices(updates)

    def scaled(path: tuple[Any, ...], update: Any) -> Any:
        return update * ADAMW_RMS * math.sqrt(max(sides(update.shape, matrices[dotted(path)])))

    return jax.tree_util.tree_map_with_path(scaled, updates)

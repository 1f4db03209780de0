"""Muon for matrices, AdamW's direction for all else."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from optax.contrib import MuonDimensionNumbers, scale_by_muon

from jax_lm.optimizers.matrices import Matrix, find_matrices, sides
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

    def muon(matrices: Mapping[str, Matrix]) -> optax.GradientTransformation:
        return scale_by_muon(
            beta=momentum,
            eps=epsilon,
            mu_dtype=moment_dtype,
            nesterov=nesterov,
            weight_dimension_numbers=partial(_dimensions, matrices),
        )

    def init(params: Any) -> Any:
        matrices = find_matrices(params)
        chosen, rest = _split(params, matrices)
        return {"muon": muon(matrices).init(chosen), "adam": adam.init(rest)}

    def update(updates: Any, state: Any, _params: Any = None) -> tuple[Any, Any]:
        matrices = find_matrices(updates)
        chosen, rest = _split(updates, matrices)
        chosen, muon_state = muon(matrices).update(chosen, state["muon"])
        rest, adam_state = adam.update(rest, state["adam"])
        together = eqx.combine(_as_large_as_adamw(chosen, matrices), rest)
        return together, {"muon": muon_state, "adam": adam_state}

    return optax.GradientTransformation(init, update)


def _split(params: Any, matrices: Mapping[str, Matrix]) -> tuple[Any, Any]:
    """The matrices, and all else, with None in the place of what is in the other."""
    is_matrix = jax.tree_util.tree_map_with_path(lambda path, _: dotted(path) in matrices, params)
    chosen, rest = eqx.partition(params, is_matrix)
    return chosen, rest


def _dimensions(matrices: Mapping[str, Matrix], params: Any) -> Any:
    return jax.tree_util.tree_map_with_path(
        lambda path, _: MuonDimensionNumbers(*matrices[dotted(path)]), params
    )


def _as_large_as_adamw(updates: Any, matrices: Mapping[str, Matrix]) -> Any:
    """Orthogonal matrices times what gives them the root mean square of ADAMW_RMS."""

    def scaled(path: tuple[Any, ...], update: Any) -> Any:
        return update * ADAMW_RMS * math.sqrt(max(sides(update.shape, matrices[dotted(path)])))

    return jax.tree_util.tree_map_with_path(scaled, updates)

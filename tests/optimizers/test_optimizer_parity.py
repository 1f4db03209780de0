"""Against PyTorch, transformers, optax's own Muon, and Lion's paper."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from transformers.optimization import Adafactor

from jax_lm.optimizers.config import OptimizerConfig
from tests.optimizers.small_model import TOTAL_STEPS, small_model, take_steps

STEPS = 10
SHAPE = {"embed": 8, "mlp": 10, "layers": 2}
GRADIENTS = [small_model(seed, **SHAPE) for seed in range(1, STEPS + 1)]


def config_of(name: str, **options: Any) -> OptimizerConfig:
    return OptimizerConfig(
        **{"name": name, "learning_rate": 0.01, "schedule": "constant", "clip_norm": 0.0} | options
    )


def torch_steps(
    make: Any, model: Any, gradients: list[Any], clip_norm: float | None = None
) -> list[np.ndarray]:
    """All leaves after PyTorch's steps; ``make`` gets biases and scales apart."""
    tensors = [torch.tensor(np.asarray(leaf)) for leaf in jax.tree.leaves(model)]
    paths = [jax.tree_util.keystr(p) for p, _ in jax.tree_util.tree_leaves_with_path(model)]
    bare = [path.endswith(("bias", "scale")) for path in paths]
    pairs = list(zip(tensors, bare, strict=True))
    optimizer = make(
        [t for t, is_bare in pairs if not is_bare], [t for t, is_bare in pairs if is_bare]
    )
    for gradient in gradients:
        for tensor, leaf in zip(tensors, jax.tree.leaves(gradient), strict=True):
            tensor.grad = torch.tensor(np.asarray(leaf))
        if clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(tensors, clip_norm)
        optimizer.step()
    return [tensor.numpy() for tensor in tensors]


def assert_same(model: Any, expected: list[np.ndarray], tolerance: float = 1e-6) -> None:
    for found, wanted in zip(jax.tree.leaves(model), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def test_adamw_is_pytorchs() -> None:
    def make(decayed: list[torch.Tensor], bare: list[torch.Tensor]) -> Any:
        groups = [{"params": decayed}, {"params": bare, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=0.01, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.3)

    config = config_of("adamw", beta1=0.8, beta2=0.9, epsilon=1e-6, weight_decay=0.3, clip_norm=1.0)
    model = small_model(**SHAPE)
    found, _ = take_steps(config, model, GRADIENTS)
    assert_same(found, torch_steps(make, model, GRADIENTS, clip_norm=1.0))


@pytest.mark.parametrize("nesterov", [None, True])
def test_sgd_is_pytorchs(nesterov: bool | None) -> None:
    def make(*groups: list[torch.Tensor]) -> Any:
        parameters = [tensor for group in groups for tensor in group]
        return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, nesterov=bool(nesterov))

    model = small_model(**SHAPE)
    found, _ = take_steps(config_of("sgd", nesterov=nesterov, weight_decay=0.0), model, GRADIENTS)
    assert_same(found, torch_steps(make, model, GRADIENTS))


def test_adafactor_is_transformers_layer_by_layer() -> None:
    """Theirs factors any matrix, so the sides here are long enough for ours to do it too."""

    def make(*groups: list[torch.Tensor]) -> Any:
        parameters = [tensor for group in groups for tensor in group]
        return Adafactor(parameters, lr=0.05, scale_parameter=True, relative_step=False)

    def unstacked(model: Any, layer: int) -> dict[str, Any]:
        attention = model.blocks.attention
        return {
            "query_weight": attention.query_weight[layer].reshape(128, 128),
            "output_weight": attention.output_weight[layer].reshape(128, 128),
            "query_bias": attention.query_bias[layer].reshape(128),
            "up_weight": model.blocks.up_weight[layer],
        }

    model, gradients = small_model(layers=2), [small_model(s, layers=2) for s in range(1, 6)]
    found, _ = take_steps(
        config_of("adafactor", learning_rate=0.05, weight_decay=0.0), model, gradients
    )
    for layer in (0, 1):
        expected = torch_steps(
            make, unstacked(model, layer), [unstacked(g, layer) for g in gradients]
        )
        assert_same(unstacked(found, layer), expected, 2e-6)


def test_lion_is_its_papers() -> None:
    """Algorithm 2 of Chen et al. 2023 in float64."""
    model = small_model(**SHAPE)
    found, _ = take_steps(config_of("lion", beta2=0.98, weight_decay=0.2), model, GRADIENTS)
    value = np.asarray(model.blocks.up_weight, np.float64)
    mean = np.zeros_like(value)
    for gradient in GRADIENTS:
        g = np.asarray(gradient.blocks.up_weight, np.float64)
        value -= 0.01 * (np.sign(0.9 * mean + 0.1 * g) + 0.2 * value)
        mean = 0.98 * mean + 0.02 * g
    np.testing.assert_allclose(found.blocks.up_weight, value, rtol=1e-5, atol=1e-6)


def test_muon_is_optaxs_on_the_plain_matrix() -> None:
    config = config_of("muon", momentum=0.9, weight_decay=0.0)
    model = small_model(**SHAPE)
    found, _ = take_steps(config, model, GRADIENTS[:4])

    def plain(tree: Any) -> dict[str, Any]:
        attention = tree.blocks.attention
        return {
            "query": attention.query_weight[1].reshape(8, 8),
            "output": attention.output_weight[1].reshape(8, 8),
            "up": tree.blocks.up_weight[1],
        }

    muon = optax.contrib.muon(0.01, beta=0.9, consistent_rms=0.2)
    params = plain(model)
    state = muon.init(params)
    update = jax.jit(muon.update)
    for gradient in GRADIENTS[:4]:
        updates, state = update(plain(gradient), state, params)
        params = optax.apply_updates(params, updates)
    for name, expected in params.items():
        np.testing.assert_allclose(plain(found)[name], expected, rtol=1e-5, atol=1e-6)


def test_muons_updates_are_orthogonal_in_every_layer_and_the_rest_is_adamw() -> None:
    model = small_model(layers=2, embed=16, mlp=24)
    gradient = small_model(1, layers=2, embed=16, mlp=24)
    config = config_of("muon", learning_rate=1.0, weight_decay=0.0)
    after, _ = take_steps(config, model, [gradient])
    moved = jax.tree.map(lambda old, new: np.asarray(old - new), model, after)
    for layer in (0, 1):
        for matrix, longest in (
            (moved.blocks.attention.query_weight[layer].reshape(16, 16), 16),
            (moved.blocks.attention.output_weight[layer].reshape(16, 16), 16),
            (moved.blocks.up_weight[layer], 24),
        ):
            singular = np.linalg.svd(matrix, compute_uv=False) / (0.2 * np.sqrt(longest))
            # Five Newton-Schulz steps bring all but the smallest near 1 and no further.
            assert singular.min() > 0.3 and singular.max() < 1.3
            assert np.median(singular) == pytest.approx(0.95, abs=0.25)
    adamw, _ = take_steps(
        config_of("adamw", learning_rate=1.0, weight_decay=0.0), model, [gradient]
    )
    np.testing.assert_array_equal(after.token_embedding, adamw.token_embedding)
    np.testing.assert_array_equal(after.blocks.norm_scale, adamw.blocks.norm_scale)
    np.testing.assert_array_equal(
        after.blocks.attention.query_bias, adamw.blocks.attention.query_bias
    )


def test_the_schedule_reaches_the_update() -> None:
    """Plain SGD on a gradient of ones: the weights fall by the sum of the learning rates."""
    config = OptimizerConfig(
        name="sgd", momentum=0.0, weight_decay=0.0, clip_norm=0.0,
        learning_rate=1.0, min_learning_rate=0.0, schedule="linear", warmup_steps=1,
    )  # fmt: skip
    model = small_model(**SHAPE)
    after, _ = take_steps(config, model, [jax.tree.map(jnp.ones_like, model)] * 3)
    fallen = model.token_embedding - after.token_embedding
    expected = 0.5 + 1.0 + (1.0 - 1 / (TOTAL_STEPS - 1))
    np.testing.assert_allclose(fallen, np.full_like(fallen, expected), rtol=1e-5)

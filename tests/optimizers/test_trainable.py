"""Freezing by path patterns, and which parameters are matrices."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from jaxtyping import Array, Float

from jax_lm.errors import UsageError
from jax_lm.models.base import TokenIds
from jax_lm.models.low_rank import LoraConfig, with_low_rank
from jax_lm.models.registry import FAMILIES, init_model
from jax_lm.optimizers.build import make_optimizer
from jax_lm.optimizers.config import OptimizerConfig
from jax_lm.optimizers.masks import decay_mask
from jax_lm.optimizers.matrices import find_matrices
from jax_lm.optimizers.patterns import matched_layers
from jax_lm.optimizers.trainable import trainable_mask
from tests.optimizers.small_model import NAMES, named_leaves

QUERY = "blocks.attention.query_weight"


def made(family: str) -> Any:
    config = FAMILIES[family].config(num_layers=4, num_heads=2, embed_dim=128, context_length=8)
    known = config.with_tokens(TokenIds(30, pad=0, bos=1, eos=2))
    return init_model(jax.random.key(0), known)


def tiny(family: str) -> Any:
    return jax.eval_shape(lambda: made(family))


def frozen_paths(family: str, *freeze: str) -> set[str]:
    return {
        path for path, trained in named_leaves(trainable_mask(tiny(family), freeze)).items()
        if not trained
    }  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "layers"),
    [
        ("blocks.attention.*", [0, 1, 2, 3]),
        ("*query_weight", [0, 1, 2, 3]),
        ("blocks.2.*", [2]),
        ("blocks.0-1.*", [0, 1]),
        ("blocks.[02].attention.*", [0, 2]),
        ("blocks.*.attention.query_weight", [0, 1, 2, 3]),
        ("*.3.attention.query_weight", [3]),
        ("blocks.2-9.attention.query_*", [2, 3]),
        ("blocks.2.feed_forward.*", []),
        ("blocks.1", []),
    ],
)
def test_patterns_name_layers(pattern: str, layers: list[int]) -> None:
    found = matched_layers([pattern], QUERY, (4, 16, 2, 8))
    assert [layer for layer, matched in enumerate(found) if matched] == layers


def test_layers_of_an_encoder_decoder() -> None:
    found = matched_layers(["encoder.blocks.0-2.*"], f"encoder.{QUERY}", (4, 2))
    assert found == (True, True, True, False)
    assert not any(matched_layers(["encoder.blocks.0-2.*"], f"decoder.{QUERY}", (4, 2)))


def test_what_is_frozen_in_whole_is_left_out() -> None:
    assert frozen_paths("gpt2", "*_embedding") == {"token_embedding", "position_embedding"}
    assert frozen_paths("gpt2", "blocks.0-2.*") == set()
    both = frozen_paths("gpt2", "blocks.0-2.*", "blocks.3.attention.*")
    assert QUERY in both and "blocks.feed_forward.up_weight" not in both
    encoder = frozen_paths("t5", "encoder.*")
    assert all(path.startswith("encoder.") for path in encoder) and len(encoder) > 5


@pytest.mark.parametrize(
    ("family", "pattern", "sentence"),
    [
        ("gpt2", "blocks.4.*", "layers are blocks.0-3"),
        ("gpt2", "blocks.2-4.*", "no parameter has the path blocks.4.*"),
        ("gpt2", "blocks.3-1.*", "no parameter has the path blocks.3-1.*"),
        ("gpt2", "token_embeding", "the nearest are token_embedding,"),
        ("gpt2", "attention", "blocks.attention.*"),
        ("t5", "blocks.0.*", "layers are encoder.blocks.0-3, decoder.blocks.0-3"),
        ("gpt2", "*", "--optimizer.freeze * leaves nothing to train"),
    ],
)
def test_patterns_that_cannot_be_meant_are_refused(
    family: str, pattern: str, sentence: str
) -> None:
    with pytest.raises(UsageError) as caught:
        trainable_mask(tiny(family), (pattern,))
    assert sentence in str(caught.value) and pattern in str(caught.value)


class Adapted(eqx.Module):
    weight: Float[Array, "layers embed heads head_dim"]
    a: Float[Array, "layers embed rank"]
    b: Float[Array, "layers rank heads head_dim"]


def test_low_rank_adaptation_trains_its_factors_alone() -> None:
    model = {"blocks": {"query_weight": Adapted(jnp.zeros((2, 8, 2, 4)), *[jnp.zeros(2)] * 2)}}
    mask = trainable_mask(model, lora=True)["blocks"]["query_weight"]
    assert (mask.weight, mask.a, mask.b) == (False, True, True)
    mask = trainable_mask(model, ("*.a",), lora=True)["blocks"]["query_weight"]
    assert (mask.a, mask.b) == (False, True)
    with pytest.raises(UsageError, match="no low-rank factors"):
        trainable_mask(tiny("gpt2"), lora=True)


@pytest.mark.parametrize("family", FAMILIES)
def test_matrices_are_told_by_their_axes(family: str) -> None:
    """Two-sided weights of blocks and heads; no table, output matrix, bias or norm."""
    model = tiny(family)
    matrices = find_matrices(model)
    weights = {path for path in named_leaves(model) if path.endswith("_weight")}
    assert set(matrices) == weights - {"output_weight"}
    for path, leaf in named_leaves(model).items():
        if path in matrices:
            inputs, outputs = matrices[path]
            assert sorted((*inputs, *outputs)) == list(range("blocks" in path, leaf.ndim))


@pytest.mark.parametrize("family", FAMILIES)
def test_biases_and_norm_scales_are_not_decayed(family: str) -> None:
    decayed = named_leaves(decay_mask(tiny(family), embeddings=True))
    assert {name for name, keep in decayed.items() if not keep} == {
        name for name in decayed if name.endswith(("bias", ".scale"))
    }
    without = named_leaves(decay_mask(tiny(family), embeddings=False))
    changed = {name for name in decayed if decayed[name] != without[name]}
    assert changed == {name for name in decayed if name.endswith("_embedding")}
    assert changed


@pytest.mark.parametrize("name", NAMES)
def test_low_rank_factors_are_matrices_too(name: str) -> None:
    """Factors of tables but for the table's side; also where one of the two is frozen."""
    config = LoraConfig(rank=2, targets=("*weight", "token_embedding"))
    model = jax.eval_shape(lambda: with_low_rank(jax.random.key(0), made("gpt2"), config))
    freeze = ("blocks.attention.*.a", "blocks.0.*")
    trained = eqx.filter(model, trainable_mask(model, freeze, lora=True))
    assert find_matrices(trained)["blocks.attention.query_weight.b"] == ((1,), (2, 3))
    assert find_matrices(trained)["blocks.feed_forward.up_weight.a"] == ((1,), (2,))
    assert "token_embedding.a" not in find_matrices(trained)
    optimizer = make_optimizer(OptimizerConfig(name=name, freeze=freeze), 10)
    state = jax.eval_shape(optimizer.init, trained)
    updates, _ = jax.eval_shape(optimizer.update, trained, state, trained)
    assert jax.tree.leaves(updates) == jax.tree.leaves(trained)

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from jax_lm.errors import JaxLMError
from jax_lm.models.axes import parameter_axes
from jax_lm.models.gpt2 import GPT2, GPT2Config


def test_parameters_are_named_by_their_axes() -> None:
    config = GPT2Config(vocab_size=7, context_length=4, num_layers=3, num_heads=2, embed_dim=4)
    model = GPT2.init(jax.random.key(0), config)
    axes = parameter_axes(model)
    assert axes.token_embedding == ("vocab", "embed")
    assert axes.blocks.attention.query_weight == ("layers", "embed", "heads", "head_dim")
    assert axes.blocks.feed_forward.down_bias == ("layers", "embed")
    assert axes.final_norm.scale == ("embed",)
    sizes = {"vocab": 128, "embed": 4, "context": 4, "layers": 3, "heads": 2, "head_dim": 2}
    for leaf, names in zip(
        jax.tree.leaves(model),
        jax.tree.leaves(axes, is_leaf=lambda leaf: type(leaf).__name__ == "AxisNames"),
        strict=True,
    ):
        assert leaf.shape == tuple(sizes.get(name, 16) for name in names)


def test_a_parameter_without_axis_names_is_refused() -> None:
    class Unnamed(eqx.Module):
        weight: jax.Array

    with pytest.raises(JaxLMError, match=r"Unnamed\.weight has no axis names"):
        parameter_axes(Unnamed(jnp.zeros(3)))

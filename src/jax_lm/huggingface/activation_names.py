"""What transformers calls activation functions."""

from collections.abc import Mapping

from jax_lm.models.layers.activations import Activation

ACTIVATION_NAMES: Mapping[str, Activation] = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
"""Their words for ours; the first one for a function is the one written."""

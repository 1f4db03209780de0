"""Every remat policy computes the same gradients, in less memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.models.forward import forward
from jax_lm.models.gpt2 import GPT2Config
from jax_lm.models.layers.dropout import DropoutKey
from jax_lm.models.registry import abstract_model
from jax_lm.models.roberta import RobertaConfig
from jax_lm.models.t5 import T5Config
from jax_lm.types import Batch

ROWS, SEQ, VOCABULARY = 2, 48, 64
SHAPE = {"vocab_size": VOCABULARY, "context_length": SEQ, "num_layers": 2, "num_heads": 4}
SHAPE |= {"embed_dim": 16, "dropout": 0.1}
CONFIGS = {
    "gpt2": GPT2Config(**SHAPE),
    "roberta": RobertaConfig(**SHAPE, attention_dropout=0.1, pad_id=1),
    "t5": T5Config(**SHAPE, head_dim=4, mlp_dim=64),
}
POLICIES = ("attention", "dots", "full")


def drawn(config):
    draw = np.random.default_rng(0)
    return jax.tree.map(
        lambda leaf: jnp.asarray(0.3 * draw.normal(size=leaf.shape), jnp.float32),
        abstract_model(config),
    )


def compiled(config, model, policy, dropped):
    ids = np.random.default_rng(1).integers(3, VOCABULARY, (2, ROWS, SEQ)).astype(np.int32)
    ones = jnp.ones((ROWS, SEQ))
    given = Batch(
        input_ids=jnp.asarray(ids[0]),
        targets=jnp.asarray(ids[1]),
        loss_mask=ones,
        decoder_input_ids=jnp.asarray(ids[1]) if config.kind == "encoder-decoder" else None,
    )

    def loss(model, key):
        hidden = forward(
            model, given, key=DropoutKey(key, jnp.arange(ROWS)) if dropped else None, remat=policy
        )
        return jnp.square(hidden).mean()

    return jax.jit(jax.grad(loss)).lower(model, jax.random.key(2)).compile()


SLOW = [(name, dropped) for name in CONFIGS for dropped in (True, False)][1:]


@pytest.mark.parametrize(
    ("name", "dropped"),
    [("gpt2", True), *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)],
)
def test_policies_give_equal_gradients_in_less_memory(name, dropped):
    model = drawn(CONFIGS[name])
    plain = compiled(CONFIGS[name], model, "none", dropped)
    expected = plain(model, jax.random.key(2))
    scale = max(float(jnp.linalg.norm(leaf)) for leaf in jax.tree.leaves(expected))
    sizes = [plain.memory_analysis().temp_size_in_bytes]
    for policy in POLICIES:
        other = compiled(CONFIGS[name], model, policy, dropped)
        found = other(model, jax.random.key(2))
        for ours, wanted in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            # Of a leaf with next to no gradient (a key bias has none), rounding is all there is.
            bound = 1e-6 * max(float(jnp.linalg.norm(wanted)), 1e-2 * scale)
            assert float(jnp.linalg.norm(ours - wanted)) <= bound, policy
        sizes.append(other.memory_analysis().temp_size_in_bytes)
    assert sizes[1] < 0.95 * sizes[0], sizes
    assert sizes == sorted(sizes, reverse=True), sizes

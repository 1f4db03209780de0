"""What is dropped depends on the key and on the row's number, and on nothing else."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.models.forward import forward
from jax_lm.models.layers.dropout import DropoutKey, dropout, split_key
from jax_lm.models.registry import init_model
from tests.contracts.family_cases import CONFIGS
from tests.contracts.test_families import batch

ROWS = jnp.array([5, 2, 9, 0])


@pytest.mark.parametrize("shape", [(4, 6, 8), (4, 2, 6, 6)])
def test_rows_drop_the_same_wherever_they_are(shape):
    key, x = jax.random.key(1), jnp.ones(shape)
    whole = np.asarray(dropout(x, 0.5, DropoutKey(key, ROWS)))
    order = np.array([2, 0, 3, 1])
    np.testing.assert_array_equal(dropout(x, 0.5, DropoutKey(key, ROWS[order])), whole[order])
    np.testing.assert_array_equal(dropout(x[:2], 0.5, DropoutKey(key, ROWS[2:])), whole[2:])
    assert len({row.tobytes() for row in whole}) == 4


def test_split_keys_differ_and_keep_the_rows():
    one, two = split_key(DropoutKey(jax.random.key(0), ROWS), 2)
    assert one is not None and two is not None
    assert one.rows is ROWS and two.rows is ROWS
    x = jnp.ones((4, 64))
    assert not np.array_equal(dropout(x, 0.5, one), dropout(x, 0.5, two))
    assert split_key(None, 2) == [None, None]


@pytest.mark.parametrize("name", ["gpt2", pytest.param("t5", marks=pytest.mark.slow)])
def test_a_batch_in_two_parts_computes_what_the_whole_does(name):
    config = dataclasses.replace(CONFIGS[name], dropout=0.3)
    model = jax.jit(init_model, static_argnums=1)(jax.random.key(0), config)
    run = jax.jit(lambda b, rows: forward(model, b, key=DropoutKey(jax.random.key(1), rows)))
    whole = run(batch(), jnp.arange(3))
    order = jnp.array([2, 0, 1])
    given = jax.tree.map(lambda array: array[order], batch())
    np.testing.assert_allclose(run(given, order), whole[order], atol=1e-6)
    assert not np.allclose(run(given, jnp.arange(3)), whole[order], atol=1e-2)

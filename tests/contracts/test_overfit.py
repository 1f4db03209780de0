"""Every family learns one batch by heart, with every objective that trains its kind."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jax_lm.losses import mean_loss, token_shares
from jax_lm.models.base import TokenIds
from jax_lm.models.forward import forward
from jax_lm.models.registry import FAMILIES, init_model
from jax_lm.objectives.registry import OBJECTIVES, objectives_of
from jax_lm.objectives.span_corruption import lengths_for_input
from jax_lm.types import Batch, Rows
from tests.contracts.family_cases import CONFIGS
from tests.objectives.objective_fakes import BOS, EOS, PAD, SpecialTokenizer, draws, objective

LENGTH = 12
STEPS = 60
TOKENIZER = SpecialTokenizer(vocab_size=40, sentinels=6)
ORDINARY = np.arange(7, 34)
COMBINATIONS = [
    (family, name) for family in FAMILIES for name in objectives_of(FAMILIES[family].config.kind)
]


def rows_for(name: str) -> Rows:
    """Four rows of what the objective reads."""
    random = np.random.default_rng(0)
    if name in ("seq2seq", "dialogue"):
        inputs, outputs = (random.choice(ORDINARY, (4, 3)) for _ in range(2))
        threes = np.full(4, 3, np.int32)
        return Rows(inputs, threes, target_ids=outputs, target_lengths=threes)
    widths = {"causal-lm": LENGTH + 1, "span-corruption": lengths_for_input(LENGTH).raw}
    ids = random.choice(ORDINARY, (4, widths.get(name, LENGTH)))
    ends = np.tile(np.array([4, 9], np.int32), (4, 1))
    return Rows(ids, np.full(4, ids.shape[1], np.int32), sentence_ends=ends)


def batch_for(name: str, kind: str) -> Batch:
    """Of one shape for all objectives, so that a family is compiled once."""
    made = objective(OBJECTIVES[name](), kind, LENGTH, TOKENIZER)(rows_for(name), draws(4))

    def wide(array):
        return np.pad(array, ((0, 0), (0, LENGTH - array.shape[1])))

    segments = np.ones((4, LENGTH), np.int32) if made.segment_ids is None else made.segment_ids
    made = made._replace(segment_ids=segments)
    return Batch(*(None if array is None else wide(array) for array in made))


@jax.jit
def learn(model, batch):
    """Losses of the batch, step by step."""
    optimizer = optax.adam(2e-2)

    def loss(model):
        hidden = forward(model, batch)
        shares = token_shares(jnp.asarray(batch.loss_mask))
        return mean_loss(hidden, model.unembedding, jnp.asarray(batch.targets), shares)[0]

    def step(carry, _):
        model, state = carry
        value, gradient = jax.value_and_grad(loss)(model)
        updates, state = optimizer.update(gradient, state)
        return (optax.apply_updates(model, updates), state), value

    return jax.lax.scan(step, (model, optimizer.init(model)), None, length=STEPS)[1]


@pytest.mark.parametrize(("family", "name"), COMBINATIONS)
def test_a_batch_is_learned_by_heart(family: str, name: str) -> None:
    config = next(config for config in CONFIGS.values() if config.family == family)
    config = dataclasses.replace(config, dropout=0.0).with_tokens(TokenIds(40, PAD, BOS, EOS))
    losses = np.asarray(learn(init_model(jax.random.key(0), config), batch_for(name, config.kind)))
    assert losses[-1] < 0.2 * losses[0], losses[:: STEPS // 6]

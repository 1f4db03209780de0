"""Every family against transformers: the same numbers from the same weights, both ways."""

import importlib
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.huggingface.convert import leaves_by_path
from jax_lm.huggingface.directory import load_model, write_directory
from jax_lm.losses import mean_loss, token_shares
from jax_lm.models.forward import forward
from jax_lm.types import Batch
from tests.parity.parity_cases import (
    VOCABULARY,
    Case,
    Inputs,
    make_inputs,
    random_model,
    their_logits,
    truncated,
)

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

FILES = sorted(path.stem for path in Path(__file__).parent.glob("cases_*.py"))
CASES: dict[str, Case] = {
    name: case
    for file in FILES
    for name, case in importlib.import_module(f"tests.parity.{file}").CASES.items()
}


class Pair(NamedTuple):
    """The same weights, theirs and ours, on the same inputs."""

    case: Case
    theirs: Any
    ours: Any
    inputs: Inputs
    logits: np.ndarray
    """Ours, at the scored positions."""
    gradients: Any
    loss: float


@pytest.fixture(scope="module", params=CASES.values(), ids=CASES.keys())
def pair(request, tmp_path_factory) -> Pair:
    case = request.param
    theirs = random_model(case)
    folder = tmp_path_factory.mktemp("theirs")
    theirs.save_pretrained(folder)
    ours = load_model(folder)
    inputs = make_inputs(case, encoder_decoder=theirs.config.is_encoder_decoder)
    (loss, logits), gradients = run(ours, batch_of(inputs))
    return Pair(case, theirs, ours, inputs, np.asarray(logits)[inputs.scored], gradients, loss)


def batch_of(inputs: Inputs) -> Batch:
    return Batch(
        input_ids=inputs.input_ids.astype(np.int32),
        targets=inputs.targets.astype(np.int32),
        loss_mask=inputs.scored.astype(np.float32),
        segment_ids=inputs.real.astype(np.int32),
        decoder_input_ids=None
        if inputs.decoder_input_ids is None
        else inputs.decoder_input_ids.astype(np.int32),
    )


@jax.jit
def run(model, batch):
    def loss(model):
        hidden = forward(model, batch)
        logits = model.unembedding.logits(hidden)[..., :VOCABULARY]
        shares = token_shares(jnp.asarray(batch.loss_mask))
        return mean_loss(hidden, model.unembedding, jnp.asarray(batch.targets), shares)[0], logits

    return jax.value_and_grad(loss, has_aux=True)(model)


def logits_of(model, inputs: Inputs) -> np.ndarray:
    hidden = forward(model, batch_of(inputs))
    return np.asarray(model.unembedding.logits(hidden))[..., :VOCABULARY][inputs.scored]


def log_softmax(logits: np.ndarray) -> np.ndarray:
    logits = logits.astype(np.float64)
    logits = logits - logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def expected_logits(model, inputs: Inputs) -> np.ndarray:
    with torch.no_grad():
        return their_logits(model, inputs).numpy()[inputs.scored]


def cut(model, depth: int):
    """Our model with the first ``depth`` blocks of each stack."""

    def stacks(model):
        if hasattr(model, "blocks"):
            return [model.blocks]
        return [model.encoder.blocks, model.decoder.blocks]

    shallow = [jax.tree.map(lambda leaf: leaf[:depth], blocks) for blocks in stacks(model)]
    return eqx.tree_at(stacks, model, shallow)


def first_wrong_layer(theirs, ours, inputs: Inputs) -> str:
    """Where the two part: both models' first blocks alone, then one block more at a time."""
    depth = max(leaf.shape[0] for leaf in jax.tree.leaves(getattr(ours, "blocks", None) or ours))
    for layers in range(depth + 1):
        expected = expected_logits(truncated(theirs, layers), inputs)
        actual = logits_of(cut(ours, layers), inputs)
        if not np.allclose(actual, expected, atol=1e-5, rtol=0):
            return f"block {layers - 1}" if layers else "the embeddings or the head"
    return "no block"


def assert_equal_logits(theirs, ours, inputs: Inputs, actual: np.ndarray) -> None:
    expected = expected_logits(theirs, inputs)
    difference = np.abs(actual - expected).max()
    if not difference < 1e-5:
        where = first_wrong_layer(theirs, ours, inputs)
        pytest.fail(f"logits differ by {difference:.2e}, first in {where}")


def test_logits_are_equal(pair: Pair):
    """On rows padded on the right, on the left and not at all."""
    assert_equal_logits(pair.theirs, pair.ours, pair.inputs, pair.logits)
    p = log_softmax(expected_logits(pair.theirs, pair.inputs))
    q = log_softmax(pair.logits)
    assert (np.exp(p) * (p - q)).sum(axis=-1).max() < 1e-10


def test_gradients_are_equal(pair: Pair, tmp_path: Path):
    theirs, inputs = pair.theirs, pair.inputs
    theirs.zero_grad()
    logits = their_logits(theirs, inputs)[torch.tensor(inputs.scored)]
    targets = torch.tensor(inputs.targets[inputs.scored])
    expected = torch.nn.functional.cross_entropy(logits, targets)
    expected.backward()
    np.testing.assert_allclose(pair.loss, expected.item(), rtol=1e-5)
    weights = {name: p.detach().clone() for name, p in theirs.named_parameters()}
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(
                torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            )
        theirs.save_pretrained(tmp_path)  # so the same table reads them
        for name, parameter in theirs.named_parameters():
            parameter.copy_(weights[name])
    wanted = leaves_by_path(load_model(tmp_path))
    for path, gradient in leaves_by_path(pair.gradients).items():
        # A key bias moves every score alike, so its gradient is rounding around zero.
        scale = max(float(jnp.abs(wanted[path]).max()), 1e-3)
        np.testing.assert_allclose(gradient / scale, wanted[path] / scale, atol=1e-4, err_msg=path)


def test_exported_it_is_the_same_again(pair: Pair, tokenizer, tmp_path: Path):
    """Bit by bit when read back; in transformers' Auto class with equal logits."""
    config = pair.ours.config
    write_directory(pair.ours, tokenizer, tmp_path / "out", card="# tiny\n")
    again = load_model(tmp_path / "out")
    assert again.config == config
    before, after = leaves_by_path(pair.ours), leaves_by_path(again)
    assert before.keys() == after.keys()
    for path, leaf in before.items():
        assert np.asarray(leaf).tobytes() == np.asarray(after[path]).tobytes(), path
    auto = getattr(transformers, pair.case.auto)
    theirs = auto.from_pretrained(tmp_path / "out", attn_implementation="eager").eval()
    assert theirs.dtype == torch.float32
    assert_equal_logits(theirs, again, pair.inputs, pair.logits)


def test_a_difference_names_its_layer():
    """The comparison itself: one weight of block 1 changed."""
    case = CASES["gpt2"]
    theirs = random_model(case)
    inputs = make_inputs(case, encoder_decoder=False)
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        ours = load_model(Path(folder))
    assert first_wrong_layer(theirs, ours, inputs) == "no block"
    with torch.no_grad():
        theirs.transformer.h[1].mlp.c_fc.bias.add_(0.1)
    assert first_wrong_layer(theirs, ours, inputs) == "block 1"

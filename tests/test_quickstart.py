"""The journey in miniature (the real one is slow), and what is told when it is done."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm import quickstart
from jax_lm.cli.main import main
from jax_lm.evaluation.documents import Evaluation
from jax_lm.pretrained import open_model
from jax_lm.recipes.quickstart import quickstart as recipe
from jax_lm.training.config import TrainConfig
from tests.conftest import TinyFeatures


@pytest.fixture
def miniature(
    tiny_features: TinyFeatures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Point the journey at a little text and a model that trains in a second."""

    def small() -> TrainConfig:
        config = recipe()
        model = replace(config.model, context_length=32, num_heads=2, embed_dim=16)
        evaluation = replace(config.evaluation, sample_tokens=0)
        return replace(config, model=model, evaluation=evaluation, steps=4)

    monkeypatch.setattr(quickstart, "recipe", small)
    monkeypatch.setattr(quickstart, "TRAIN", str(tiny_features.text))
    monkeypatch.setattr(quickstart, "HELD_OUT", str(tiny_features.held_out_text))
    monkeypatch.setattr(quickstart, "VOCAB_SIZE", 300)
    yield tmp_path / "runs" / "quickstart"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_journey_is_stopped_goes_on_is_done_and_begins_anew(
    miniature: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["quickstart", "--run-dir", str(miniature)]

    def stopped(*args: object, **options: object) -> Evaluation:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(quickstart, "evaluate", stopped)
        assert main(command) == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert (miniature / "final" / "model.safetensors").is_file()
    assert not (miniature / quickstart.EVALUATION_FILE).exists()

    assert main(command) == 0
    told = capsys.readouterr().out
    for step in ("1. Documents", "2. Tokenizer", "3. Features", "4. Training", "5. Evaluation"):
        assert step in told
    assert f"done already: {miniature / 'final'}" in told
    assert "zlib -9" in told
    assert "xz -9" in told
    assert "Try next:" in told

    assert main(command) == 0
    told = capsys.readouterr().out
    numbers = json.loads((miniature / quickstart.EVALUATION_FILE).read_text())
    assert f"quickstart is done: {numbers['eval_bits_per_byte']:.3f} bits per byte" in told
    assert "jax-lm quickstart --anew" in told

    monkeypatch.setattr(quickstart, "train", stopped)
    assert main([*command, "--anew"]) == 130
    assert "1. Documents" in capsys.readouterr().out
    assert not miniature.exists()


@pytest.mark.slow
def test_the_real_journey(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Below what xz reaches, and the same model in transformers; takes minutes."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    run = tmp_path / "quickstart"
    quickstart.Journey(run).travel()
    numbers = json.loads((run / quickstart.EVALUATION_FILE).read_text())
    assert numbers["eval_bits_per_byte"] < numbers["compressors_bits_per_byte"]["xz -9"]
    theirs = transformers.AutoModelForCausalLM.from_pretrained(run / "final")
    tokenizer = transformers.AutoTokenizer.from_pretrained(run / "final")
    ours = open_model(str(run))
    for prompt in ("import os\n", "class Node:\n    def __init__", "# blåbær 안녕"):
        ids = tokenizer(prompt)["input_ids"]
        assert ids == ours.tokenizer.encode_batch([prompt]).ids.tolist()
        hidden = ours.model(jnp.array([ids], jnp.int32))
        logits = np.asarray(ours.model.unembedding.logits(hidden[0]))[:, : len(tokenizer)]
        with torch.no_grad():
            expected = theirs(torch.tensor([ids])).logits[0].numpy()
        np.testing.assert_allclose(logits, expected, atol=1e-4)

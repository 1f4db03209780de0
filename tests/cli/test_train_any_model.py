"""``train`` with any model and objective, ``models``, and ``evaluate`` on rows."""

import json
import shutil
from pathlib import Path

import pytest

from jax_lm.cli.main import main
from jax_lm.cli.train_arguments import configure
from jax_lm.models.gpt2 import GPT2Config
from jax_lm.models.llama import LlamaConfig
from jax_lm.models.roberta import RobertaConfig
from jax_lm.objectives.masked_lm import MaskedLMConfig
from jax_lm.recipes.english import gpt2_small_openwebtext
from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe
from jax_lm.training.config import TrainConfig
from tests.training.same_run import assert_same_run

TINY = ["--model.num-layers", "1", "--model.num-heads", "2", "--model.embed-dim", "16"]
SHORT = ["--steps", "3", "--batch-size", "4", "--evaluation.sample-tokens", "4"]
QUIET = ["--tracking.no-tensorboard", "--evaluation.every", "0"]
TEXT = "Å være eller ikke være, det er spørsmålet. To be, or not to be: 없다, def main(): pass\n"


def configured(*args: str, default: TrainConfig | None = None) -> TrainConfig:
    return configure(default or TrainConfig(), list(args), "jax-lm train")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A text, a tokenizer with RoBERTa's special tokens, and pairs."""
    folder = tmp_path_factory.mktemp("any")
    (folder / "text.txt").write_text(TEXT * 60, encoding="utf-8")
    special = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    train_byte_level_bpe([TEXT] * 4, vocab_size=300, special_tokens=special).save(folder / "tok")
    pairs = ({"in_text": f"What is {i}? ", "out_text": f"It is {i}."} for i in range(40))
    (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    return folder


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_LM_CACHE", str(tmp_path / "cache"))


def test_a_preset_gives_the_shape_and_the_tokenizer_the_vocabulary():
    config = configured("--model.config", "llama-100m", "--model.num-layers", "3").model
    assert isinstance(config, LlamaConfig)
    assert (config.num_layers, config.embed_dim, config.vocab_size) == (3, 768, None)


def test_a_config_of_transformers_gives_shape_and_vocabulary(tmp_path: Path):
    values = {"model_type": "gpt2", "vocab_size": 999, "n_layer": 3, "n_embd": 24, "n_head": 2}
    (tmp_path / "config.json").write_text(json.dumps(values))
    for place in (tmp_path, tmp_path / "config.json"):
        config = configured("--model.config", str(place), "--model.num-layers", "5").model
        assert isinstance(config, GPT2Config)
        assert (config.num_layers, config.embed_dim, config.vocab_size) == (5, 24, 999)


def test_a_model_learns_what_it_was_published_with_unless_told_otherwise():
    assert configured("--model.config", "bart-base").objective.name == "denoising"
    assert configured("--model.config", "t5-small").objective.name == "span-corruption"
    told = configured("--model.config", "t5-small", "--objective", "seq2seq")
    assert told.objective.name == "seq2seq"
    changed = configured("--objective", "masked-lm", "--objective.probability", "0.3")
    assert changed.objective == MaskedLMConfig(probability=0.3)
    assert configured(default=gpt2_small_openwebtext()).objective.name == "causal-lm"


def test_a_saved_configuration_names_its_family_and_objective(tmp_path: Path):
    saved = {
        "model": {"family": "roberta", "num_layers": 2},
        "objective": {"name": "masked-lm", "mask_share": 0.5},
    }
    (tmp_path / "c.json").write_text(json.dumps(saved))
    config = configured("--config", str(tmp_path / "c.json"))
    assert config.model == RobertaConfig(num_layers=2)
    assert config.objective == MaskedLMConfig(mask_share=0.5)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--model.config", "llama-2-7"], "nor a preset; did you mean 'llama-2-7b'?"),
        (["--model.config", "gpt2", "--objective", "masked"], "did you mean 'masked-lm'?"),
        (["--model.config", "gpt2", "--model.num-kv-heads", "2"], "unknown flag"),
        (["--model.config", "gpt2", "--model.num-layers", "0"], "num_layers is 0, expected 1"),
        (["--steps", "3"], "name a recipe first"),
    ],
)
def test_what_is_wrong_is_told_in_a_sentence(args, message, capsys):
    assert main(["train", *args]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_an_unknown_key_of_a_config_is_named(tmp_path: Path, capsys):
    values = {"model_type": "llama", "hidden_size": 64, "quantum_heads": 3, "mlp_bias": True}
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert main(["train", "--model.config", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "quantum_heads" in error


def run(*args: str) -> int:
    return main(["train", *args, *SHORT, *QUIET])


def test_an_encoder_is_trained_evaluated_and_exported(folder: Path, tmp_path: Path, capsys):
    """Masked, from a SPEC; the numbers are the same each time, and text is not for it."""
    rows = ["--data.train", str(folder / "text.txt"), "--data.validation", str(folder / "text.txt")]
    where = ["--data.tokenizer", str(folder / "tok"), "--run-dir", str(tmp_path / "run")]
    length = ["--model.context-length", "16", "--loss-reduction", "sample", "--z-loss", "1e-4"]
    assert run("--model.config", "roberta-base", *TINY, *rows, *where, *length) == 0
    metrics = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert "val/accuracy" in metrics and "bits_per_byte" not in metrics
    scores = []
    for model in ("run", "run/final"):
        output = tmp_path / "scores.json"
        evaluated = ["evaluate", str(tmp_path / model), str(folder / "text.txt")]
        assert main([*evaluated, "--output", str(output)]) == 0
        scores.append(json.loads(output.read_text())["eval_loss"])
    assert scores[0] == pytest.approx(scores[1], rel=1e-6)
    assert "masked-lm (probability 0.15" in capsys.readouterr().out
    assert main(["generate", str(tmp_path / "run"), "--prompt", "x"]) == 1
    assert "only decoders and encoder-decoders write text" in capsys.readouterr().err


def test_pairs_teach_a_decoder_its_outputs_and_weights_are_taken_up(
    folder: Path, tmp_path: Path, capsys
):
    pairs = ["--data.train", str(folder / "pairs.jsonl"), "--data.tokenizer", str(folder / "tok")]
    shape = ["--model.config", "gpt2", *TINY, "--model.context-length", "24"]
    first = str(tmp_path / "first")
    assert run(*shape, "--objective", "seq2seq", *pairs, "--run-dir", first) == 0
    loss = json.loads((tmp_path / "first" / "metrics.jsonl").read_text().splitlines()[-1])
    again = ["--objective", "seq2seq", "--data.train", pairs[1], "--model.dropout", "0"]
    shorter = ["--data.sequence-length", "20", "--run-dir", str(tmp_path / "second")]
    assert run("--init-from", first, *again, *shorter) == 0
    out = capsys.readouterr().out
    assert f"weights   {first}/final" in out
    assert run("--init-from", first, *again, "--model.num-layers", "2") == 2
    assert "num_layers 2 (its own: 1)" in capsys.readouterr().err
    started = json.loads((tmp_path / "second" / "metrics.jsonl").read_text().splitlines()[0])
    assert started["train/loss"] < 1.05 * loss["train/loss"]


def test_an_objective_for_another_kind_is_refused(folder: Path, tmp_path: Path, capsys):
    rows = ["--data.train", str(folder / "text.txt"), "--data.tokenizer", str(folder / "tok")]
    where = ["--run-dir", str(tmp_path / "run"), "--model.context-length", "16"]
    assert run("--model.config", "gpt2", *TINY, "--objective", "masked-lm", *rows, *where) == 1
    assert "masked-lm trains encoders" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_models_lists_published_shapes(capsys):
    assert main(["models", "opt-125m", "stories260k"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["opt-125m", "stories260k"]
    assert "125,239,296" in lines[1]
    assert main(["models", "lama"]) == 2
    assert "did you mean 'llama'" in capsys.readouterr().err


def test_a_masked_run_goes_on_bit_by_bit(folder: Path, tmp_path: Path):
    """From an early checkpoint, as if everything after it had been lost: the masks are the same."""
    rows = ["--data.train", str(folder / "text.txt"), "--data.tokenizer", str(folder / "tok")]
    shape = ["--model.config", "roberta-base", *TINY, "--model.context-length", "16"]
    often = ["--checkpoint.every", "1", "--checkpoint.keep", "9", "--tracking.every", "1"]
    whole, again = tmp_path / "whole", tmp_path / "again"
    assert run(*shape, *rows, *often, "--run-dir", str(whole)) == 0
    shutil.copytree(whole, again)
    shutil.rmtree(again / "final")
    for step in (2, 3):
        shutil.rmtree(again / "checkpoints" / f"step-{step:08d}")
    assert run(*shape, *rows, *often, "--run-dir", str(again), "--resume", "auto") == 0
    assert_same_run(str(whole), str(again))

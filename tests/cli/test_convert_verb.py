"""``jax-lm convert`` from one layout to the other and back."""

import json
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.checkpoints import Progress, save_checkpoint
from jax_lm.cli.main import main
from jax_lm.dataclass_json import to_json
from jax_lm.huggingface import directory
from jax_lm.huggingface.directory import load_model, write_directory
from jax_lm.huggingface.resizing import resize_vocabulary
from jax_lm.models.gpt2 import GPT2, GPT2Config
from jax_lm.pretrained import open_model, own_directory
from jax_lm.tokenizers.characters import train_characters
from jax_lm.tokenizers.pretrained import PretrainedTokenizer


@pytest.fixture(scope="module")
def tokenizer() -> PretrainedTokenizer:
    return train_characters(["abcdefgh æøå\n"])


@pytest.fixture(scope="module")
def model(tokenizer: PretrainedTokenizer) -> GPT2:
    config = GPT2Config(
        vocab_size=tokenizer.vocab_size + 2,
        context_length=8,
        num_layers=2,
        num_heads=2,
        embed_dim=8,
    )
    return GPT2.init(jax.random.key(0), config)


@pytest.fixture
def place(model: GPT2, tokenizer: PretrainedTokenizer, tmp_path: Path, monkeypatch) -> Path:
    write_directory(model, tokenizer, tmp_path / "hf", card="")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def assert_same(a: GPT2, b: GPT2) -> None:
    jax.tree.map(np.testing.assert_array_equal, a, b)


def test_there_and_back_again(place: Path, model: GPT2, tokenizer, capsys):
    assert main(["convert", "hf", "ours"]) == 0
    assert {path.name for path in (place / "ours").iterdir()} == {
        *("config.json", "model", "tokenizer", "checksums.json"),
    }
    opened = open_model("ours")
    assert_same(opened.model, model)
    assert opened.model.config == model.config
    assert opened.tokenizer.fingerprint() == tokenizer.fingerprint()
    assert main(["convert", "ours", "back", "--max-shard-size", "2KB"]) == 0
    assert len(list((place / "back").glob("*.safetensors"))) > 1
    assert_same(load_model(place / "back"), model)
    shown = capsys.readouterr().out
    parameters = sum(leaf.size for leaf in jax.tree.leaves(model))
    parameters -= 8 * (128 - tokenizer.vocab_size - 2)
    assert f"gpt2, {parameters:,} parameters (2 layers, width 8), from Hugging Face" in shown
    assert f"{tokenizer.vocab_size} ids; the model has 2 more, which no text uses" in shown
    assert "verified   read back: every array equal bit by bit" in shown


def test_half_precision_and_ids_without_a_tokenizer(place: Path, model: GPT2, capsys):
    for path in (place / "hf").glob("tokenizer*"):
        path.unlink()
    values = json.loads((place / "hf" / "config.json").read_text())
    (place / "hf" / "config.json").write_text(json.dumps({**values, "eos_token_id": 3}))
    assert main(["convert", "hf", "half", "--to", "huggingface", "--dtype", "bfloat16"]) == 0
    written = json.loads((place / "half" / "config.json").read_text())
    assert (written["dtype"], written["eos_token_id"]) == ("bfloat16", 3)
    expected = jax.tree.map(lambda x: x.astype(jnp.bfloat16).astype(jnp.float32), model)
    assert_same(load_model(place / "half"), expected)
    assert "none there, and none written; --tokenizer names one" in capsys.readouterr().out


def test_a_run_and_its_checkpoints_go_to_hugging_face(place: Path, model: GPT2, tokenizer, capsys):
    tokenizer.save(place / "run" / "tokenizer")
    for step in (3, 5):
        save_checkpoint(
            place / "run" / "checkpoints",
            model=jax.tree.map(lambda leaf, step=step: step * leaf, model),
            optimizer={"step": np.zeros(1)},
            progress=Progress(step=step, position=0, tokens=0, data=""),
            config={"model": to_json(model.config)},
            keep=2,
        )
    assert main(["convert", "run@3", "third"]) == 0
    assert_same(load_model(place / "third"), jax.tree.map(lambda leaf: 3 * leaf, model))
    assert main(["convert", "run", "newest"]) == 0
    assert_same(load_model(place / "newest"), jax.tree.map(lambda leaf: 5 * leaf, model))
    assert main(["convert", "run@4", "none"]) == 1
    assert "no such checkpoint (steps with one: 3, 5)" in capsys.readouterr().err
    (place / "hf").rename(place / "run" / "final")
    assert main(["convert", "run", "final"]) == 0
    assert_same(load_model(place / "final"), model)
    assert (place / "final" / "tokenizer.json").is_file()


@pytest.mark.parametrize("to", ["huggingface", "jax-lm"])
def test_what_reads_back_differently_is_not_kept(place: Path, capsys, monkeypatch, to: str):
    real_weights, real_arrays = directory.write_weights, own_directory.save_model
    doubled = partial(jax.tree.map, lambda leaf: 2 * leaf)
    monkeypatch.setattr(
        directory,
        "write_weights",
        lambda model, *args, **rest: real_weights(doubled(model), *args, **rest),
    )
    monkeypatch.setattr(
        own_directory,
        "save_model",
        lambda path, *, model, config: real_arrays(path, model=doubled(model), config=config),
    )
    assert main(["convert", "hf", "out", "--to", to]) == 1
    message = capsys.readouterr().err
    assert "read back, " in message
    assert "blocks.attention.query_weight" in message
    assert not (place / "out").exists()


def test_an_output_that_exists_needs_to_be_given_up(place: Path, capsys):
    assert main(["convert", "hf", "out", "--to", "huggingface"]) == 0
    assert main(["convert", "hf", "out", "--to", "huggingface"]) == 1
    assert "out: exists already; name another OUTPUT or add --overwrite" in capsys.readouterr().err
    assert main(["convert", "hf", "out", "--to", "huggingface", "--overwrite"]) == 0
    (place / "thesis").mkdir()
    (place / "thesis" / "main.tex").write_text("years of work")
    assert main(["convert", "hf", "thesis", "--overwrite"]) == 1
    assert "holds something other than an exported model" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (["--max-shard-size", "5parsec"], 2, "expected a size such as 500MB or 5GB"),
        (["--max-shard-size", "0"], 2, "expected a size such as 500MB or 5GB"),
        (["--dtype", "float16"], 2, "jax-lm's own arrays are float32"),
        (["--tokenizer", "/nowhere"], 1, "/nowhere: no such file or directory"),
    ],
)
def test_flags_that_make_no_sense_are_told(place: Path, capsys, flags, code, message):
    assert main(["convert", "hf", "out", *flags]) == code
    assert message in capsys.readouterr().err
    assert not (place / "out").exists()


def test_a_larger_tokenizer_needs_new_rows(place: Path, model: GPT2, capsys):
    larger = train_characters(["abcdefghijklmnopqrstuvwxyz æøå\n"])
    larger.save(place / "larger")
    assert main(["convert", "hf", "out", "--tokenizer", "larger"]) == 1
    assert "convert --resize-vocabulary makes room" in capsys.readouterr().err
    given = ["--tokenizer", "larger", "--resize-vocabulary"]
    assert main(["convert", "hf", "out", *given]) == 0
    added = larger.vocab_size - model.config.vocab_size
    assert f"{added} new rows, each the mean of the others" in capsys.readouterr().out
    assert open_model("out").model.config.vocab_size == larger.vocab_size


@pytest.mark.parametrize("vocab_size", [5, 14, 130, 300])
def test_vocabularies_are_cut_and_grown(model: GPT2, vocab_size: int):
    resized = resize_vocabulary(model, vocab_size)
    assert resized.config.vocab_size == vocab_size
    before, after = np.asarray(model.token_embedding), np.asarray(resized.token_embedding)
    real = before[: model.config.vocab_size]
    kept = min(vocab_size, len(real))
    np.testing.assert_array_equal(after[:kept], real[:kept])
    new = after[kept:vocab_size]
    np.testing.assert_allclose(new, np.broadcast_to(real.mean(0), new.shape), atol=1e-7)
    assert len(after) == resized.config.padded_vocab_size
    assert not after[vocab_size:].any()
    jax.tree.map(np.testing.assert_array_equal, resized.blocks, model.blocks)


def test_damage_to_our_own_layout_is_named(place: Path, capsys):
    assert main(["convert", "hf", "ours"]) == 0
    config = place / "ours" / "config.json"
    config.write_text(config.read_text().replace("gpt2", "gpt3"))
    assert main(["generate", "ours", "--prompt", "a"]) == 1
    assert "ours: damaged checkpoint: config.json" in capsys.readouterr().err

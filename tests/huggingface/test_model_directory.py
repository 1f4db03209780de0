import dataclasses
import json
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest
import yaml
from safetensors import safe_open

from jax_lm.errors import JaxLMError
from jax_lm.huggingface import directory as directories
from jax_lm.huggingface.directory import load_directory, write_directory
from jax_lm.huggingface.model_card import model_card
from jax_lm.models.gpt2 import GPT2
from jax_lm.tokenizers.characters import train_characters


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_a_directory_holds_what_transformers_expects(exported: Path, model, tokenizer):
    assert {"config.json", "generation_config.json", "model.safetensors"} < names(exported)
    assert {"tokenizer.json", "tokenizer_config.json", "README.md"} < names(exported)
    assert names(exported.parent) == {"model"}, "nothing temporary is left"
    config = json.loads((exported / "config.json").read_text())
    assert config["architectures"] == ["GPT2LMHeadModel"]
    assert config["eos_token_id"] == tokenizer.eos_id
    settings = json.loads((exported / "tokenizer_config.json").read_text())
    assert settings["model_max_length"] == model.config.context_length
    with safe_open(exported / "model.safetensors", "numpy") as file:
        assert file.metadata() == {"format": "pt"}
        assert file.get_slice("transformer.h.1.mlp.c_fc.weight").get_dtype() == "F32"


def test_what_is_read_is_what_was_written(exported: Path, model: GPT2, tokenizer):
    read, read_tokenizer = load_directory(exported)
    assert read.config == model.config
    jax.tree.map(np.testing.assert_array_equal, read, model)
    assert read_tokenizer.fingerprint() == tokenizer.fingerprint()


def test_an_earlier_export_is_replaced(exported: Path, model: GPT2, tokenizer):
    doubled = jax.tree.map(lambda x: 2 * x, model)
    write_directory(doubled, tokenizer, exported, card="# second\n")
    assert (exported / "README.md").read_text() == "# second\n"
    jax.tree.map(np.testing.assert_array_equal, load_directory(exported)[0], doubled)
    assert names(exported.parent) == {"model"}


def test_an_empty_directory_is_filled_and_parents_are_made(model, tokenizer, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    write_directory(model, tokenizer, tmp_path / "empty", card="")
    write_directory(model, tokenizer, tmp_path / "a" / "b", card="")
    assert names(tmp_path / "empty") == names(tmp_path / "a" / "b")


def test_nothing_foreign_is_ever_replaced(exported: Path, model, tokenizer, tmp_path: Path):
    (exported / "thesis.tex").write_text("years of work")
    with pytest.raises(JaxLMError, match=r"would delete thesis\.tex: move that away"):
        write_directory(model, tokenizer, exported, card="")
    assert (exported / "thesis.tex").exists()
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "main.py").write_text("")
    with pytest.raises(JaxLMError, match="holds something other than an exported model"):
        write_directory(model, tokenizer, tmp_path / "code", card="")
    with pytest.raises(JaxLMError, match="a file is in the way"):
        write_directory(model, tokenizer, tmp_path / "code" / "main.py", card="")
    assert names(tmp_path) == {"model", "code"}


def test_a_failed_write_leaves_the_earlier_export(exported: Path, model, tokenizer, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    before = {path.name: path.read_bytes() for path in exported.iterdir()}
    monkeypatch.setattr(directories, "write_weights", fail)
    with pytest.raises(OSError, match="No space left"):
        write_directory(jax.tree.map(lambda x: -x, model), tokenizer, exported, card="new")
    assert {path.name: path.read_bytes() for path in exported.iterdir()} == before
    assert names(exported.parent) == {"model"}


def killed_between_renames(exported: Path) -> None:
    """What a write leaves behind that was killed there."""
    exported.rename(exported.with_name("model.earlier-0123abcd"))


def test_an_earlier_export_survives_a_kill_between_the_renames(
    exported: Path, model, tokenizer, monkeypatch
):
    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    killed_between_renames(exported)
    with monkeypatch.context() as patched:
        patched.setattr(directories, "write_weights", fail)
        with pytest.raises(OSError, match="No space left"):
            write_directory(model, tokenizer, exported, card="new")
    assert (exported / "README.md").read_text() == "# tiny\n"
    killed_between_renames(exported)
    write_directory(model, tokenizer, exported, card="new")
    assert (exported / "README.md").read_text() == "new"
    assert names(exported.parent) == {"model"}


def test_an_earlier_export_is_put_back_where_the_second_rename_fails(
    exported: Path, model, tokenizer, monkeypatch
):
    real = Path.rename

    def rename(self: Path, target: Path):
        if self.name.startswith(".tmp-"):
            raise OSError(5, "Input/output error")
        return real(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", rename)
        with pytest.raises(OSError, match="Input/output"):
            write_directory(model, tokenizer, exported, card="new")
    assert (exported / "README.md").read_text() == "# tiny\n"
    assert names(exported.parent) == {"model"}


def test_weights_that_read_back_differently_are_not_kept(model, tokenizer, tmp_path, monkeypatch):
    real = directories.write_weights

    def corrupt(model: GPT2, family, directory: Path, **options):
        other = eqx.tree_at(
            lambda m: m.final_norm, model, replace_fn=lambda n: jax.tree.map(inc, n)
        )
        return real(other, family, directory, **options)

    def inc(x):
        return x + 1

    monkeypatch.setattr(directories, "write_weights", corrupt)
    with pytest.raises(
        JaxLMError, match=r"differ from what was written: final_norm\.bias, final_norm"
    ):
        write_directory(model, tokenizer, tmp_path / "out", card="")
    assert names(tmp_path) == set()


def test_a_directory_without_config_is_no_model(tmp_path: Path):
    with pytest.raises(JaxLMError, match=r"no config\.json: this is not a Hugging Face model"):
        load_directory(tmp_path)


@pytest.mark.parametrize("text", ["{", "[1]", "\x00"])
def test_a_broken_config_is_named(exported: Path, text: str):
    (exported / "config.json").write_text(text)
    with pytest.raises(JaxLMError, match=r"config\.json: (not valid JSON|expected a JSON object)"):
        load_directory(exported)


@pytest.mark.parametrize("size", [0, 5, 300, -1])
def test_truncated_weights_are_named(exported: Path, size: int):
    path = exported / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(JaxLMError, match=r"model\.safetensors is not a whole safetensors file \("):
        load_directory(exported)


def test_absent_weights_are_named(exported: Path):
    (exported / "model.safetensors").unlink()
    with pytest.raises(JaxLMError, match=r"no model\.safetensors, .*bin.*: there are no weights"):
        load_directory(exported)


def test_a_tokenizer_larger_than_the_model_is_refused(exported: Path, tokenizer):
    train_characters(["abcdefghijklmnopqrstuvwxyz0123456789"]).save(exported)
    with pytest.raises(JaxLMError, match=r"the tokenizer has \d+ ids, but the model embeds only"):
        load_directory(exported)


def test_the_model_card_says_what_it_is(model: GPT2):
    card = model_card(
        "tiny",
        dataclasses.replace(model),
        training={"tokens": "1,000", "a|b": "x\ny"},
        evaluation={"val/bits_per_byte": 1.23456},
        example_prompt="it's",
    )
    front = yaml.safe_load(card.split("---")[1])
    assert front["library_name"] == "transformers"
    assert "license" not in front
    padding = 8 * (128 - model.config.vocab_size)
    parameters = sum(leaf.size for leaf in jax.tree.leaves(model)) - padding
    assert f"{parameters:,} parameters" in card
    assert "pipeline_tag: text-generation" in card
    assert "| embed dim | 8 |" in card
    assert "| val/bits_per_byte | 1.2346 |" in card
    assert "| a\\|b | x y |" in card
    assert "ln 2 * UTF-8 bytes" in card
    assert "--prompt 'it'\\''s'" in card


def test_a_model_card_without_numbers_has_no_empty_sections(model: GPT2):
    card = model_card("tiny", model, training={}, evaluation={})
    assert "## Training" not in card
    assert "## Evaluation" not in card

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.cli.main import main
from jax_lm.errors import UsageError
from jax_lm.generation.decode import generate
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.generation.text import continue_texts
from jax_lm.huggingface.directory import write_directory
from jax_lm.models.gpt2 import GPT2, GPT2Config
from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe
from jax_lm.tokenizers.characters import train_characters

TEXT = ["def main():\n    print('æøå 없다')\n"] * 3


def random_model(vocab_size: int) -> GPT2:
    config = GPT2Config(
        vocab_size=vocab_size, context_length=32, num_layers=1, num_heads=2, embed_dim=8
    )
    like = jax.eval_shape(lambda key: GPT2.init(key, config), jax.random.key(0))
    draw = np.random.default_rng(0).normal
    return jax.tree.map(lambda leaf: jnp.asarray(draw(size=leaf.shape), jnp.float32), like)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = train_characters(TEXT, special_tokens=("<|endoftext|>",))
    path = tmp_path_factory.mktemp("models") / "tiny"
    write_directory(random_model(tokenizer.vocab_size), tokenizer, path, card="")
    return path


def run(capsys, *args: object) -> tuple[int, str, str]:
    code = main(["generate", *map(str, args)])
    return (code, *capsys.readouterr())


def test_one_prompt_prints_the_text_alone(directory: Path, capsys):
    code, out, err = run(capsys, directory, "--prompt", "def main", "--max-new-tokens", 9)
    assert code == 0
    assert out.startswith("def main")
    assert len(out) > len("def main\n")
    assert "===" not in out
    assert " tokens in " in err
    assert "a second" in err
    again = run(capsys, directory, "--prompt", "def main", "--max_new_tokens", "9")
    assert again[1] == out


def test_several_samples_of_several_prompts_are_told_apart(directory: Path, capsys, tmp_path: Path):
    (tmp_path / "prompt.txt").write_text("    print\n", encoding="utf-8")
    flags = ["--prompt", "def", "--prompt", "", "--prompt-file", tmp_path / "prompt.txt"]
    flags += ["--num-samples", 2, "--max-new-tokens", 20, "--temperature", 5]
    code, out, _ = run(capsys, directory, *flags)
    assert code == 0
    titles = [line for line in out.splitlines() if line.startswith("===")]
    assert titles == [f"=== prompt {1 + i // 2}, sample {1 + i % 2} of 2 ===" for i in range(6)]
    texts = [part.split(" ===\n", 1)[1] for part in out.split("=== prompt ")[1:]]
    assert [text.startswith("def") for text in texts[:2]] == [True, True]
    assert [text.startswith("    print") for text in texts[4:]] == [True, True]
    assert len(set(texts)) == 6, "samples of a prompt differ"


def test_greedy_samples_are_the_same(directory: Path, capsys):
    flags = ["--prompt", "def", "--temperature", 0, "--num-samples", 2, "--max-new-tokens", 6]
    _, out, _ = run(capsys, directory, *flags)
    first, second = (part.split(" ===\n", 1)[1].strip() for part in out.split("=== prompt ")[1:])
    assert first == second


def test_a_full_context_and_a_cut_prompt_are_said_once(directory: Path, capsys):
    flags = ["--prompt", "def main()" * 20, "--max-new-tokens", 50, "--top-k", 3, "--top-p", 0.9]
    code, out, err = run(capsys, directory, *flags)
    assert code == 0
    assert out.startswith("def main()" * 20)
    assert err.count("is longer than the context of 32: only its last 16 are read") == 1
    assert err.count("the context of 32 tokens is full: the text goes on from its last 16") == 1


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        ([], 2, 'nothing to continue: give --prompt "..." or --prompt-file FILE'),
        (["--prompt", "a", "--num-samples", "0"], 2, "--num-samples must be at least 1, not 0"),
        (["--prompt", "a", "--max-new-tokens", "-2"], 2, "--max-new-tokens must be at least 1"),
        (["--prompt", "a", "--top-p", "2"], 2, "--top-p must be above 0 and at most 1, not 2.0"),
        (["--prompt", "a", "--temprature", "1"], 2, "unknown flag --temprature; did you mean"),
        (["--prompt-file", "/nowhere.txt"], 1, "/nowhere.txt: No such file or directory"),
    ],
)
def test_bad_flags_are_one_sentence(directory: Path, capsys, flags, code, message):
    found, out, err = run(capsys, directory, *flags)
    assert (found, out) == (code, "")
    assert message in err
    assert "Traceback" not in err


def test_a_prompt_file_that_is_not_text_is_named(directory: Path, capsys, tmp_path: Path):
    (tmp_path / "prompt.bin").write_bytes(b"\xff\xfe")
    code, _, err = run(capsys, directory, "--prompt-file", tmp_path / "prompt.bin")
    assert code == 1
    assert "prompt.bin: not UTF-8 text (invalid start byte)" in err


def test_a_model_that_is_not_there_is_named(capsys):
    code, _, err = run(capsys, "/nowhere", "--prompt", "a")
    assert code == 1
    assert "/nowhere: no such directory" in err


def test_an_empty_prompt_starts_a_document():
    tokenizer = train_characters(["abc"], special_tokens=("<|endoftext|>",))
    model = random_model(tokenizer.vocab_size)
    config = SamplingConfig(max_new_tokens=8)
    (sample,) = continue_texts(model, tokenizer, [""], config)
    (ids,) = generate(model, [[tokenizer.eos_id]], config, eos_id=tokenizer.eos_id)
    assert (sample.prompt, sample.text) == ("", tokenizer.decode(ids))


def test_an_empty_prompt_needs_a_token_to_start_from():
    tokenizer = train_characters(["abc"], special_tokens=())
    assert tokenizer.bos_id is tokenizer.eos_id is None
    with pytest.raises(UsageError, match="an empty prompt needs a tokenizer with a BOS or EOS"):
        continue_texts(random_model(tokenizer.vocab_size), tokenizer, [""], SamplingConfig())


def test_special_tokens_of_a_prompt_are_text_unless_they_are_meant(tmp_path: Path):
    tokenizer = train_byte_level_bpe(TEXT, vocab_size=270)
    model, settings = random_model(270), SamplingConfig(max_new_tokens=3, temperature=0.0)
    given = (model, tokenizer, ["def<|endoftext|>x"], settings)
    text, special = (continue_texts(*given, parse_special=flag)[0] for flag in (False, True))
    assert text.text != special.text

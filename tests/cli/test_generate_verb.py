import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.cli.main import main
from jax_lm.errors import UsageError
from jax_lm.generation.decode import generate
from jax_lm.generation.prompts import read_prompts
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.generation.text import continue_texts
from jax_lm.huggingface.directory import write_directory
from jax_lm.models.gpt2 import GPT2, GPT2Config
from jax_lm.models.registry import init_model
from jax_lm.models.roberta import RobertaConfig
from jax_lm.models.t5 import T5Config
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
        ([], 2, 'nothing to continue: give --prompt "...", --prompt-file FILE or --prompts FILE'),
        (["--prompt", "a", "--num-samples", "0"], 2, "--num-samples is 0, expected 1 or more"),
        (["--prompt", "a", "--max-new-tokens", "-2"], 2, "--max-new-tokens is -2, expected 1 or"),
        (["--prompt", "a", "--top-p", "2"], 2, "--top-p is 2.0, expected above 0 and at most 1"),
        (["--prompt", "a", "--batch-size", "0"], 2, "--batch-size is 0, expected 1 or more"),
        (["--prompt", "a", "--stop", ""], 2, "--stop is empty, expected some text"),
        (["--prompt", "a", "--min-new-tokens", "500"], 2, "expected at most --max-new-tokens, 128"),
        (["--prompt", "a", "--stop-ids", "999"], 2, "token id 999 is not one of the model's"),
        (["--prompt", "a", "--stream", "--num-samples", "2"], 2, "give one prompt, one sample"),
        (["--prompt", "a", "--stream", "--num-beams", "2"], 2, "--stream with --num-beams"),
        (["--prompt", "a", "--stream", "--output", "x.jsonl"], 2, "--stream prints text and"),
        (["--prompt", "a", "--output", "/nowhere/x.jsonl"], 1, "no such directory /nowhere"),
        (["--prompts", "/nowhere.csv"], 2, "expected a file that ends with .jsonl or .txt"),
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


def test_prompts_from_files_and_json_lines_out(directory: Path, capsys, tmp_path: Path):
    (tmp_path / "some.txt").write_text("def\r\n\nprint\n", encoding="utf-8")
    records = ['{"prompt": "def\\u2028", "id": 3}', "", '{"in_text": "main"}']
    (tmp_path / "more.jsonl").write_text("\n".join(records), encoding="utf-8")
    assert read_prompts(tmp_path / "some.txt") == ["def", "print"]
    assert read_prompts(tmp_path / "more.jsonl") == ["def\u2028", "main"]
    output = tmp_path / "out.jsonl"
    flags = ["--prompts", tmp_path / "some.txt", "--num-samples", 2, "--max-new-tokens", 6]
    code, out, err = run(capsys, directory, *flags, "--output", output, "--batch-size", 3)
    assert (code, out) == (0, "")
    assert f"4 continuations written to {output}" in err
    assert "written 4/4 texts  " in err
    lines = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert [line["prompt"] for line in lines] == ["def", "def", "print", "print"]
    printed = run(capsys, directory, *flags)[1]
    for line in lines:
        assert list(line) == ["prompt", "text", "num_tokens", "finish_reason"]
        assert line["prompt"] + line["text"] in printed
        assert (line["num_tokens"] == 6) == (line["finish_reason"] == "length")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("[1]", "expected a record such as"),
        ('{"text": "a"}', "expected a record such as"),
        ('{"prompt": 3}', "expected a record such as"),
    ],
)
def test_a_bad_line_of_prompts_is_named(directory: Path, capsys, tmp_path: Path, line, message):
    (tmp_path / "bad.jsonl").write_text('{"prompt": "a"}\n\n' + line, encoding="utf-8")
    code, _, err = run(capsys, directory, "--prompts", tmp_path / "bad.jsonl")
    assert code == 1
    assert f"{tmp_path / 'bad.jsonl'}, line 3: {message}" in err


def test_streamed_text_equals_what_is_printed_at_once(directory: Path, capsys):
    flags = ["--prompt", "def", "--max-new-tokens", 9, "--seed", 3]
    assert run(capsys, directory, *flags, "--stream")[1] == run(capsys, directory, *flags)[1]


def test_a_stop_string_cuts_the_text(directory: Path, capsys):
    flags = ["--prompt", "def", "--max-new-tokens", 12, "--temperature", 0]
    whole = run(capsys, directory, *flags)[1].removesuffix("\n")
    stop = whole[6:8]
    assert run(capsys, directory, *flags, "--stop", stop)[1] == whole[: whole.find(stop, 3)] + "\n"


def test_beams_and_lower_precision(directory: Path, capsys):
    flags = ["--prompt", "def", "--max-new-tokens", 5]
    code, out, _ = run(capsys, directory, *flags, "--num-beams", 3, "--num-samples", 2)
    assert code == 0
    assert out.count("=== prompt 1, sample") == 2
    code, out, _ = run(capsys, directory, *flags, "--dtype", "bfloat16")
    assert code == 0
    assert out.startswith("def")


def test_an_encoder_is_refused_and_an_encoder_decoder_writes(tmp_path: Path, capsys):
    tokenizer = train_characters(TEXT, special_tokens=("<pad>", "</s>", "<mask>"))
    shape = {"context_length": 16, "num_layers": 1, "num_heads": 2, "embed_dim": 8, "mlp_dim": 8}
    size = tokenizer.vocab_size
    configs = {
        "roberta": RobertaConfig(**shape, vocab_size=size, pad_id=0),
        "t5": T5Config(**shape, vocab_size=size, head_dim=4, decoder_start_id=0),
    }
    for name, config in configs.items():
        model = init_model(jax.random.key(0), config)
        write_directory(model, tokenizer, tmp_path / name, card="")
    code, _, err = run(capsys, tmp_path / "roberta", "--prompt", "def")
    assert code == 1
    assert "roberta is of kind encoder, and only decoders and encoder-decoders write text" in err
    asked = ("--prompt", "def", "--max-new-tokens", 5)
    code, out, _ = run(capsys, tmp_path / "t5", *asked)
    assert code == 0
    path = tmp_path / "texts.jsonl"
    run(capsys, tmp_path / "t5", *asked, "--output", path)
    assert out == json.loads(path.read_text())["text"] + "\n", "the input is no part of it"


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

"""`python -m jax_lm.preprocess`: the old command line, and the rows that it gave."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jax_lm.preprocess import main
from jax_lm.preprocessing.manifest import read_manifest
from jax_lm.preprocessing.verify import verify_features

datasets = pytest.importorskip("datasets")
tokenizers = pytest.importorskip("tokenizers")

CARD = """---
configs:
- config_name: wikitext-103-v1
  data_files:
  - split: train
    path: wikitext-103-v1/train-*
---
"""
END = 50256  # <|endoftext|>, BOS and EOS of GPT-2


@pytest.fixture
def texts(shared_data):
    lines = (shared_data / "corpora" / "wikitext2" / "test.txt").read_text(encoding="utf-8")
    found = lines.split("\n")[:150]
    return [*found, "Hello! " * 90, "a<|endoftext|>b!" * 30]


@pytest.fixture
def places(shared_data, texts, tmp_path, monkeypatch):
    """Directories of the tokenizer and the data set, as command-line flags."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    tokenizer = tmp_path / "gpt2"
    tokenizer.mkdir()
    description = shared_data / "tokenizers" / "gpt2" / "gpt2_tokenizer.json"
    (tokenizer / "tokenizer.json").write_bytes(description.read_bytes())
    dataset = tmp_path / "wikitext"
    (dataset / "wikitext-103-v1").mkdir(parents=True)
    (dataset / "README.md").write_text(CARD)
    table = pa.table({"text": texts})
    pq.write_table(table, dataset / "wikitext-103-v1" / "train-00000-of-00001.parquet")
    return [
        "--tokenizer-model", str(tokenizer), "--dataset-name", str(dataset),
        "--dataset-sub-name", "wikitext-103-v1", "--dataset-split-type", "train",
    ]  # fmt: skip


def original_rows(texts, tokenizer, *, minimum, maximum, reserved, stride, defects):
    """The original program's rows, in order; without ``defects``, padding is known by place."""
    rows = []
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        for start in range(0, len(ids), stride):
            chunk = ids[start : start + maximum - reserved + 1]
            if not len(chunk) > minimum - reserved:
                continue
            sequence = [END, *chunk, END]
            gap = maximum + 1 - len(sequence)
            if defects:
                sequence += [0] * gap
                mask = [1 if token > 0 else 0 for token in sequence]
            else:
                mask = [1] * len(sequence) + [0] * gap
                sequence += [END] * gap
            labels = [t if on else -100 for t, on in zip(sequence, mask, strict=True)]
            rows.append(
                {
                    "input_ids": sequence[:maximum],
                    "attention_mask": mask[:maximum],
                    "labels": labels[1 : maximum + 1],
                }
            )
    return rows


def library(shared_data, *, special):
    """GPT-2's tokenizer; ``special``: strings such as <|endoftext|> are what they look like."""
    path = shared_data / "tokenizers" / "gpt2"
    if special:
        return tokenizers.Tokenizer.from_file(str(path / "gpt2_tokenizer.json"))
    model = tokenizers.models.BPE.from_file(
        str(path / "gpt2_vocab.json"), str(path / "gpt2_merges.txt")
    )
    plain = tokenizers.Tokenizer(model)
    plain.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    return plain


def written_rows(prefix, cache):
    table = datasets.Dataset.from_parquet(f"{prefix}*", cache_dir=str(cache))
    return table.select_columns(["input_ids", "attention_mask", "labels"]).to_list()


def test_rows_equal_the_original_algorithm_with_its_defects(places, texts, shared_data, tmp_path):
    prefix = tmp_path / "dataset" / "wikitext.train"
    sizes = ["--min-sequence-length", "32", "--max-sequence-length", "64", "--stride", "48"]
    assert main([*places, *sizes, "--output-path", str(prefix), "--seed-compatible"]) == 0
    expected = original_rows(
        texts, library(shared_data, special=True), minimum=32, maximum=64, reserved=2,
        stride=48, defects=True,
    )  # fmt: skip
    assert written_rows(prefix, tmp_path / "cache") == expected
    assert verify_features(str(prefix)).problems == ()
    hidden = [row["attention_mask"] != sorted(row["attention_mask"])[::-1] for row in expected]
    assert any(hidden)  # exclamation marks, whose id is 0


def test_rows_equal_the_original_algorithm_corrected_by_default(
    places, texts, shared_data, tmp_path, capsys
):
    prefix = tmp_path / "wikitext.train"
    assert main([*places, "--output_path", str(prefix)]) == 0
    expected = original_rows(
        texts, library(shared_data, special=False), minimum=128, maximum=256, reserved=2,
        stride=128, defects=False,
    )  # fmt: skip
    assert written_rows(prefix, tmp_path / "cache") == expected
    assert verify_features(str(prefix)).problems == ()
    dropped = read_manifest(str(prefix)).dropped
    assert dropped["windows shorter than 128"] > 50
    printed = capsys.readouterr().out
    assert f"{dropped['windows shorter than 128']} windows shorter than 128" in printed


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (["--no_such_flag", "3"], 2, "nor Apache Beam has a flag --no_such_flag"),
        (["--strid=3"], 2, "has a flag --strid; did you mean '--stride'"),
        (["# comment"], 2, "has a flag # comment"),
        (["--direct_num_workers", "many"], 2, "--direct_num_workers: invalid int value: 'many'"),
        (["--ignore-label", "0"], 2, "--ignore-label is 0, but feature files mark"),
        (["--stride", "0"], 2, "--stride is 0, expected 1 or more"),
        (["--dataset-sub-name", "nope"], 1, "nope"),
        (["--min-sequence-length", "10000"], 1, "windows shorter than 10000"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(places, tmp_path, capsys, flags, code, message):
    assert main([*places, "--output-path", str(tmp_path / "out" / "x"), *flags]) == code
    error = capsys.readouterr().err
    (said,) = [line for line in error.splitlines() if line.startswith("jax-lm: ")]
    assert message in said
    assert not (tmp_path / "out" / "x-00000-of-00001.parquet").exists()


def test_help_has_every_flag_and_an_example(capsys):
    assert main(["--help"]) == 0
    printed = capsys.readouterr().out
    for flag in ("--tokenizer-model", "--num-special-token-reserved", "--dataset-split-type"):
        assert flag in printed
    assert "example: python -m jax_lm.preprocess" in printed


def hub_cache(home: Path, tokenizer: Path) -> None:
    """What a download of ``gpt2`` leaves behind."""
    model = home / "hub" / "models--gpt2"
    snapshot = model / "snapshots" / "abc123"
    snapshot.mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("abc123")
    (snapshot / "tokenizer.json").write_bytes((tokenizer / "tokenizer.json").read_bytes())


@pytest.mark.slow
def test_the_original_command_line_offline_in_several_processes(places, tmp_path):
    hub_cache(tmp_path / "home", tmp_path / "gpt2")
    command = [
        sys.executable, "-m", "jax_lm.preprocess", *places, "--tokenizer-model", "gpt2",
        "--min-sequence-length", "128", "--max-sequence-length", "256",
        "--num-special-token-reserved", "2", "--stride", "128",
        "--output-path", "dataset/wikitext.train",
        "--direct_running_mode", "multi_processing", "--direct_num_workers", "0",
    ]  # fmt: skip
    environment = {**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
    (tmp_path / "elsewhere").mkdir()
    done = subprocess.run(
        command, cwd=tmp_path / "elsewhere", env=environment, capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    prefix = tmp_path / "elsewhere" / "dataset" / "wikitext.train"
    assert main([*places, "--output-path", str(tmp_path / "one")]) == 0
    assert written_rows(prefix, tmp_path / "cache") == written_rows(
        tmp_path / "one", tmp_path / "cache"
    )

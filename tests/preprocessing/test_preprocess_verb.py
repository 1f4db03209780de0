"""The verbs from the command line, with real sources, real tokenizers and real Beam."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from jax_lm.cli.main import main
from jax_lm.preprocessing.features import open_features
from jax_lm.preprocessing.manifest import feature_files, read_manifest
from jax_lm.preprocessing.verify import verify_features
from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe
from jax_lm.tokenizers.pretrained import load_tokenizer

TEXT = "Det var en gang en katt, blåbær og brød. 고양이가 앉았다. The cat sat.\n"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tokenizer") / "bpe"
    special = ("<|endoftext|>",)
    train_byte_level_bpe([TEXT] * 3, vocab_size=280, min_frequency=1, special_tokens=special).save(
        directory
    )
    return str(directory)


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    texts = [f"{place} {TEXT * (place % 3 + 1)}" for place in range(40)]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path, texts


def command(corpus_path, tokenizer, prefix, *flags):
    sizes = ["--max-sequence-length", "32", "--shard-size", "1500"]
    given = ["--tokenizer", tokenizer, "--output", str(prefix), *sizes, *flags]
    return ["preprocess", str(corpus_path), *given]


def parquet_bytes(prefix):
    return {path.name: path.read_bytes() for path in feature_files(str(prefix))}


def test_the_whole_way_and_what_is_printed(corpus, tokenizer, tmp_path, capfd):
    path, texts = corpus
    prefix = str(tmp_path / "out" / "train")
    assert main(command(path, tokenizer, prefix)) == 0
    printed, errors = capfd.readouterr()
    size = sum(len(text.encode()) for text in texts)
    assert f"40 ({size:,} bytes)" in printed and f"{size:,} spelled by the targets" in printed
    assert "'<|endoftext|>' (id 0, EOS)" in printed and "MB/s" in printed
    assert errors == ""
    manifest = open_features(prefix)
    assert manifest.totals.num_bytes == size and len(manifest.files) > 3
    saved = load_tokenizer(tmp_path / "out" / "_train.tokenizer")
    assert saved.fingerprint() == manifest.tokenizer_fingerprint

    assert main(["features", "info", prefix]) == 0
    assert manifest.files[-1].sha256 in capfd.readouterr().out
    assert main(["features", "show", prefix, "-i", "0"]) == 0
    assert capfd.readouterr().out.startswith("⟦‹<|endoftext|>›⟧0 Det var en gang en katt, blåbær")
    assert main(["features", "verify", prefix]) == 0
    files, rows = len(manifest.files), manifest.totals.rows
    assert capfd.readouterr().out == f"{files} files, {rows:,} rows verified\n"
    assert main(command(path, tokenizer, prefix)) == 0
    assert "already done" in capfd.readouterr().out


def test_a_flipped_byte_fails_verification_by_name(corpus, tokenizer, tmp_path, capfd):
    prefix = tmp_path / "train"
    assert main(command(corpus[0], tokenizer, prefix)) == 0
    path = feature_files(str(prefix))[2]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    capfd.readouterr()
    assert main(["features", "verify", str(prefix)]) == 1
    assert capfd.readouterr().err == f"jax-lm: {path.name}: its sha256 is not the manifest's\n"


def test_a_bad_record_reaches_the_user_as_one_sentence_through_beam(
    corpus, tokenizer, tmp_path, capfd
):
    path, _ = corpus
    path.write_text(path.read_text() + '{"txt": 1}\n')
    prefix = tmp_path / "out" / "train"
    one_shard = ("--shard-size", "1000000")
    assert main(command(path, tokenizer, prefix, *one_shard)) == 1
    error = capfd.readouterr().err
    assert error.count("\n") == 1 and f"{path.name}:41: " in error
    assert list(prefix.parent.iterdir()) == []
    assert main(command(path, tokenizer, prefix, "--on-bad-record", "skip")) == 0
    assert "1 records" in capfd.readouterr().out
    (kept,) = (prefix.parent / "_train.rejected.jsonl").read_text().splitlines()
    assert json.loads(kept)["raw"].strip() == '{"txt": 1}'
    assert read_manifest(str(prefix)).totals.documents == 40


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (("--mode", "window"), 2, "windows"),
        (("--beam-options=--no_such_flag=1",), 2, "Apache Beam has no flag --no_such_flag=1"),
        (("--beam-options", "'open"), 2, "--beam-options"),
        (("--separator-token", "<|end|>"), 1, "is not one token of this tokenizer"),
        (("--max-sequence-length", "100000"), 1, "smaller --max-sequence-length"),
        (("--max-sequence-length", "0"), 2, "--max-sequence-length is 0, expected 1 or more"),
        (("--max-sequense-length", "9"), 2, "did you mean --max-sequence-length"),
    ],
)
def test_bad_flags(corpus, tokenizer, tmp_path, capfd, flags, code, message):
    prefix = tmp_path / "out" / "train"
    assert main(command(corpus[0], tokenizer, prefix, *flags)) == code
    assert message in capfd.readouterr().err
    assert not prefix.parent.exists() or list(prefix.parent.iterdir()) == []


def test_an_empty_corpus(tokenizer, tmp_path, capfd):
    path = tmp_path / "empty.jsonl"
    path.write_text("")
    assert main(command(path, tokenizer, tmp_path / "out" / "train")) == 1
    assert capfd.readouterr().err == f"jax-lm: {path} holds no documents\n"


def test_files_that_are_passed_over_are_said(corpus, tokenizer, tmp_path, capfd):
    (tmp_path / "picture.png").write_bytes(b"png")
    flags = ("--max-documents", "20")
    assert main(command(tmp_path, tokenizer, tmp_path / "out" / "train", *flags)) == 0
    assert "1 files such as" in capfd.readouterr().out
    assert read_manifest(str(tmp_path / "out" / "train")).totals.documents == 20


def test_features_without_a_part_or_a_set(tmp_path, capfd):
    assert main(["features", "infp", "x"]) == 2
    assert "'info'" in capfd.readouterr().err
    assert main(["features", "info", str(tmp_path / "none")]) == 1
    assert "run jax-lm preprocess" in capfd.readouterr().err


def test_without_beam_the_extra_is_named(corpus, tokenizer, tmp_path, capfd, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    assert main(command(corpus[0], tokenizer, tmp_path / "out" / "train")) == 1
    assert "pip install 'jax-lm[beam]'" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("stop", "code"),
    [pytest.param(signal.SIGKILL, -9, marks=pytest.mark.slow), (signal.SIGINT, 130)],
)
def test_stopped_in_the_middle_then_the_same_command(corpus, tokenizer, tmp_path, stop, code):
    """A real kill -9 or Ctrl-C while shards are written; then only what is missing is."""
    path, _ = corpus
    whole, prefix = tmp_path / "whole" / "train", tmp_path / "out" / "train"
    assert main(command(path, tokenizer, whole)) == 0
    partial = prefix.parent / "_train.partial"
    slow = (
        "import sys, time; from jax_lm.preprocessing import shard_writing as s;"
        "cut = s.tokenize; s.tokenize = lambda *a, **k: (time.sleep(0.3), cut(*a, **k))[1];"
        "from jax_lm.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    run = subprocess.Popen([sys.executable, "-c", slow, *command(path, tokenizer, prefix)])
    deadline = time.monotonic() + 60
    while len(list(partial.glob("shard-*.json"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(run.pid, stop)
    assert run.wait() == code
    done = {p.name: p.stat().st_mtime_ns for p in partial.glob("shard-*.parquet")}
    assert done and not feature_files(str(prefix))
    assert main(command(path, tokenizer, prefix)) == 0
    times = {p.stat().st_mtime_ns for p in feature_files(str(prefix))}
    assert set(done.values()) <= times
    assert parquet_bytes(prefix) == parquet_bytes(whole)
    assert not partial.exists()


@pytest.mark.slow
def test_two_processes_give_the_same_files(corpus, tokenizer, tmp_path):
    one, two = tmp_path / "one" / "train", tmp_path / "two" / "train"
    assert main(command(corpus[0], tokenizer, one)) == 0
    assert main(command(corpus[0], tokenizer, two, "--num-workers", "2")) == 0
    assert parquet_bytes(one) == parquet_bytes(two)
    assert verify_features(str(two)).problems == ()


def test_real_languages_are_spelled_to_the_byte(shared_data, tokenizer, tmp_path):
    folder = shared_data / "corpora"
    norwegian = folder / "norwegian_ud" / "no_bokmaal-ud-test.txt"
    prefix = str(tmp_path / "no")
    assert main(command(norwegian, tokenizer, prefix, "--shard-size", "50000", "--lines")) == 0
    lines = norwegian.read_text(encoding="utf-8").splitlines()
    kept = sum(len(line.encode()) for line in lines if line.strip())
    assert read_manifest(prefix).totals.num_bytes == kept


def test_neither_jax_nor_beam_is_imported_early():
    code = "import sys, jax_lm.preprocessing.cache; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    code = "import sys, jax_lm.cli.preprocess; sys.exit('apache_beam' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

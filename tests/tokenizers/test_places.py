"""Every layout in which people keep a tokenizer."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jax_lm.cli.main import main
from jax_lm.errors import JaxLMError
from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe
from jax_lm.tokenizers.hub import is_hub_name
from jax_lm.tokenizers.pretrained import PretrainedTokenizer, load_tokenizer

TEXT = ["the cat sat on the mat, and <s> the dog did not mind."] * 9
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>", "<sys>", "<usr>", "<unused0>")
COMMIT = "0" * 40


@pytest.fixture(scope="module")
def trained() -> PretrainedTokenizer:
    return train_byte_level_bpe(TEXT, vocab_size=300, special_tokens=SPECIAL)


@pytest.fixture
def pair(tmp_path: Path, trained: PretrainedTokenizer) -> Path:
    """A directory with vocab.json and merges.txt, as older programs write them."""
    folder = tmp_path / "vocab_300"
    folder.mkdir()
    trained._library.model.save(str(folder))
    return folder


def ids(tokenizer: PretrainedTokenizer) -> list[int]:
    return tokenizer.encode_batch(TEXT).ids.tolist()


@pytest.mark.parametrize("prefix", ["", "corpus-", "gpt2_"])
def test_a_vocabulary_and_its_merges(pair: Path, trained: PretrainedTokenizer, prefix: str) -> None:
    for name in ("vocab.json", "merges.txt"):
        (pair / name).rename(pair / f"{prefix}{name}")
    for place in (pair, pair / f"{prefix}vocab.json", pair / f"{prefix}merges.txt"):
        tokenizer = load_tokenizer(place)
        assert ids(tokenizer) == ids(trained)
        assert tokenizer.special_ids == trained.special_ids
        assert (tokenizer.bos_id, tokenizer.pad_id, tokenizer.eos_id) == (0, 1, 2)
        assert tokenizer.decode(ids(tokenizer)) == "".join(TEXT)


def test_gpt2s_two_files_are_its_tokenizer_json(shared_data: Path) -> None:
    folder = shared_data / "tokenizers/gpt2"
    pair = load_tokenizer(folder / "gpt2_vocab.json")
    one = load_tokenizer(folder)
    assert pair.special_ids == one.special_ids == {50256}
    assert (pair.bos_id, pair.eos_id) == (50256, 50256)
    text = ["Hello world, don't <|endoftext|> blåbær 안녕\n\n  x"]
    assert pair.encode_batch(text).ids.tolist() == one.encode_batch(text).ids.tolist()


def test_a_tokenizer_json_goes_first(pair: Path, trained: PretrainedTokenizer) -> None:
    train_byte_level_bpe(TEXT, vocab_size=280).save(pair)
    assert load_tokenizer(pair).vocab_size == 280


def test_tokens_added_by_settings(pair: Path, trained: PretrainedTokenizer) -> None:
    size = trained.vocab_size
    added = {str(size): {"content": "<|im_start|>", "special": True, "__type": "AddedToken"}}
    config = {"added_tokens_decoder": added, "eos_token": "</s>", "add_prefix_space": True}
    (pair / "tokenizer_config.json").write_text(json.dumps(config))
    (pair / "added_tokens.json").write_text(json.dumps({"<|im_end|>": size + 1}))
    tokenizer = load_tokenizer(pair)
    assert tokenizer.token_text(size) == "<|im_start|>"
    assert tokenizer.special_ids >= {size, size + 1}
    counts = tokenizer.encode_batch(["cat", " cat"])
    assert counts.ids[0] == counts.ids[counts.offsets[1]]
    assert counts.num_bytes.sum() == 3 + 4
    (pair / "added_tokens.json").write_text(json.dumps({"<|im_end|>": size + 7}))
    with pytest.raises(JaxLMError, match=rf"id {size + 7} does not follow"):
        load_tokenizer(pair)


def test_the_chat_template_beside_it_is_kept(tmp_path: Path, trained: PretrainedTokenizer) -> None:
    trained.save(tmp_path / "a")
    (tmp_path / "a/chat_template.jinja").write_text("{{ messages }}")
    load_tokenizer(tmp_path / "a").save(tmp_path / "b")
    assert (tmp_path / "b/chat_template.jinja").read_text() == "{{ messages }}"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("merges.txt", "#version: 0.2\na t\nno such\n", "merges.txt:3: 'no such' is not a merge"),
        ("merges.txt", "t\n", "merges.txt:1: 't' is not a merge"),
        ("vocab.json", "{", "vocab.json: broken JSON"),
        ("vocab.json", '{"a": 7}', "vocab.json: expected tokens with the ids 0 to 0"),
        ("merges.txt", None, "merges.txt is not beside it"),
        ("vocab.json", None, "no tokenizer.json in it"),
        ("b-vocab.json", "{}", "merges.txt is not beside it"),
    ],
)
def test_broken_pairs(pair: Path, name: str, text: str | None, message: str, capsys) -> None:
    if text is None:
        (pair / name).unlink()
    else:
        (pair / name).write_text(text)
    if name == "b-vocab.json":
        (pair / "vocab.json").unlink()
    assert main(["tokenizer", "show", str(pair)]) == 1
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_more_than_one(tmp_path: Path, capsys) -> None:
    for name in ("a.model", "b.model"):
        (tmp_path / name).write_bytes(b"")
    assert main(["tokenizer", "show", str(tmp_path)]) == 1
    assert "more than one tokenizer (a.model, b.model); name one" in capsys.readouterr().err


def test_what_may_be_a_name() -> None:
    assert all(map(is_hub_name, ["gpt2", "google-t5/t5-small", "meta-llama/Llama-2-7b.hf"]))
    assert not any(map(is_hub_name, ["/gpt2", "./gpt2", "a/b/c", "no.model", "x/vocab.json", ""]))


SHOW = """
import sys
from jax_lm.cli.main import main
sys.exit(main(["tokenizer", "show", *sys.argv[1:]]))
"""


def show(home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    environment = {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", SHOW, *args]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_name_from_the_hubs_cache(tmp_path: Path, trained: PretrainedTokenizer) -> None:
    repository = tmp_path / "hub/models--gpt2"
    snapshot = repository / "snapshots" / COMMIT
    trained.save(snapshot)
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text(COMMIT)
    done = show(tmp_path, "gpt2", "--text", "the cat")
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 tokens, 7 bytes" in done.stdout
    shutil.rmtree(repository)
    done = show(tmp_path, "gpt2")
    assert (done.returncode, done.stdout) == (1, "")
    assert "gpt2: no such file or directory here, and not in the hub cache" in done.stderr
    assert "HF_HUB_OFFLINE is set" in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_the_hub_answers(monkeypatch) -> None:
    import huggingface_hub
    from huggingface_hub import errors

    for kind, message in [
        (errors.RepositoryNotFoundError, "no such name on the"),
        (errors.GatedRepoError, "set HF_TOKEN"),
        (OSError, "the hub cannot be reached"),
    ]:

        def fail(*_: object, kind=kind, **__: object) -> None:
            raise kind.__new__(kind)

        monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
        with pytest.raises(JaxLMError, match=f"org/name: .*{message}"):
            load_tokenizer("org/name")

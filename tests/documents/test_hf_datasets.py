import pickle
from pathlib import Path

import datasets
import huggingface_hub.constants
import pytest

from jax_lm.cli.main import main
from jax_lm.documents.base import Cursor
from jax_lm.documents.open import open_source
from jax_lm.documents.reading import ReadingOptions
from jax_lm.errors import JaxLMError

START = Cursor(0, 0)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    for module in (datasets.config, huggingface_hub.constants):
        monkeypatch.setattr(module, "HF_HUB_OFFLINE", True)
    datasets.disable_progress_bars()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A local directory with two splits, as ``load_dataset`` reads it."""
    place = tmp_path / "mine"
    place.mkdir()
    for split in ("train", "test"):
        rows = datasets.Dataset.from_dict(
            {"text": [f"{split} {i}" for i in range(10)], "kind": ["a", "b"] * 5}
        )
        rows.to_parquet(place / f"{split}.parquet")
    return place


def texts(spec: str, **settings) -> list[str]:
    source = open_source(spec, ReadingOptions(**settings))
    return [document.text for _, document in source.read(START)]


@pytest.mark.parametrize("streaming", ["", "&streaming=true"])
def test_a_local_directory(folder: Path, streaming: str) -> None:
    assert texts(f"hf-dataset:{folder}?split=test{streaming}") == [f"test {i}" for i in range(10)]
    source = open_source(f"hf-dataset:{folder}?text=kind&subset=text{streaming}")
    documents = [document for _, document in source.read(START)]
    assert [d.text for d in documents] == ["a", "b"] * 5
    assert documents[3].subset == "train 3"
    assert documents[3].id == f"{folder}@3"


def test_rows_by_index(folder: Path) -> None:
    source = open_source(f"hf-dataset:{folder}")
    assert len(source) == 10
    assert source[7].text == "train 7"
    assert [d.text for d in source.read_batch([3, 1, 3])] == ["train 3", "train 1", "train 3"]
    for index in (-1, 10):
        with pytest.raises(IndexError, match=f"no row {index} of 10"):
            source[index]
    copy = pickle.loads(pickle.dumps(source))
    assert copy[7] == source[7]


def test_streamed_rows_are_cut_in_their_own_way(folder: Path) -> None:
    stored, streamed = (open_source(f"hf-dataset:{folder}{o}") for o in ("", "?streaming=true"))
    assert stored.ranges(30) != streamed.ranges(30)
    assert stored.fingerprint() != streamed.fingerprint()


def test_saved_to_disk_with_and_without_splits(tmp_path: Path) -> None:
    rows = datasets.Dataset.from_dict({"text": ["a", "b"]})
    rows.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"dev": rows}).save_to_disk(tmp_path / "dict")
    assert texts(f"hf-dataset:{tmp_path}/one") == ["a", "b"]
    assert texts(f"hf-dataset:{tmp_path}/dict") == ["a", "b"]
    assert texts(f"hf-dataset:{tmp_path}/dict?split=dev&streaming=true") == ["a", "b"]


def test_tokenised_rows(tmp_path: Path) -> None:
    rows = datasets.Dataset.from_dict({"input_ids": [[1, 2], [3]]})
    rows.save_to_disk(tmp_path / "saved")
    (tmp_path / "p").mkdir()
    rows.to_parquet(tmp_path / "p/train.parquet")
    for spec in (f"{tmp_path}/saved", f"{tmp_path}/p", f"{tmp_path}/p?streaming=true"):
        source = open_source(f"hf-dataset:{spec}")
        ids = [document.segments[0].ids.tolist() for _, document in source.read(START)]
        assert ids == [[1, 2], [3]]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{}?split=dev", "Unknown split"),
        ("{}?split=dev&streaming=true", "Available splits: ['train', 'test']"),
        ("{}:fr", "BuilderConfig 'fr' not found. Available: ['default']"),
        ("{}?text=txt", "no column 'txt'; found 'text', 'kind'; did you mean 'text'?"),
        ("nobody/nothing-here", "hf-dataset:nobody/nothing-here: cannot be loaded: "),
    ],
)
def test_what_is_not_there(folder: Path, spec: str, message: str, capsys) -> None:
    assert main(["documents", "info", f"hf-dataset:{spec.format(folder)}"]) in (1, 2)
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_split_has_to_be_named_where_there_is_no_train(tmp_path: Path) -> None:
    rows = datasets.Dataset.from_dict({"text": ["a"]})
    datasets.DatasetDict({"a": rows, "b": rows}).save_to_disk(tmp_path / "dict")
    with pytest.raises(JaxLMError, match=r"several splits; it has 'a', 'b' \(\?split=NAME\)"):
        open_source(f"hf-dataset:{tmp_path}/dict")
    with pytest.raises(JaxLMError, match="no split 'c'; it has 'a', 'b'"):
        open_source(f"hf-dataset:{tmp_path}/dict?split=c")


@pytest.mark.parametrize("streaming", ["", "&streaming=true"])
def test_bad_rows_are_skipped_once(tmp_path: Path, streaming: str) -> None:
    (tmp_path / "bad").mkdir()
    rows = datasets.Dataset.from_dict({"text": ["a", None, "b", "c"]})
    rows.to_parquet(tmp_path / "bad/train.parquet")
    spec = f"hf-dataset:{tmp_path}/bad?split=train{streaming}"
    with pytest.raises(JaxLMError, match=":2: row: field 'text' should be text, found null"):
        texts(spec)
    source = open_source(spec, ReadingOptions(on_bad_record="skip"))
    ranges = source.ranges(1)
    read = [d.text for cut in ranges for _, d in source.read(cut.start, cut.stop)]
    assert read == ["a", "b", "c"]
    assert len(source.rejects) == 1
    assert [cut.follows for cut in ranges[1:]] == [bool(streaming)] * (len(ranges) - 1)

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from jax_lm.errors import JaxLMError
from jax_lm.loading.rows import open_rows
from jax_lm.objectives.causal_lm import causal_lm
from jax_lm.preprocessing.manifest import beside, read_manifest
from jax_lm.preprocessing.options import PreprocessOptions
from jax_lm.preprocessing.pipeline import preprocess
from tests.conftest import TinyFeatures


def test_rows_equal_the_parquet_files(tiny_features: TinyFeatures) -> None:
    rows = open_rows(tiny_features.train, say=lambda line: None)
    folder = Path(tiny_features.train).parent
    tables = [pq.read_table(folder / f.name) for f in read_manifest(tiny_features.train).files]
    expected = [row for table in tables for row in table.column("input_ids").to_pylist()]
    taken = rows.take(np.arange(len(rows)))
    assert taken.input_ids.tolist() == expected
    assert taken.input_ids.dtype == np.uint16
    num_bytes = [n for table in tables for n in table.column("num_bytes").to_pylist()]
    assert rows.num_bytes(np.arange(len(rows))).tolist() == num_bytes


def test_decoding_is_said_once_and_reused(tiny_features: TinyFeatures) -> None:
    said: list[str] = []
    directory = beside(tiny_features.train, "rows")
    (directory / "index.json").unlink(missing_ok=True)
    open_rows(tiny_features.train, said.append)
    open_rows(tiny_features.train, said.append)
    assert len(said) == 1
    assert "MB mapped" in said[0]


def test_stale_rows_are_made_again(tiny_features: TinyFeatures) -> None:
    before = open_rows(tiny_features.held_out, say=lambda line: None).take(np.array([0, 1]))
    directory = beside(tiny_features.held_out, "rows")
    np.save(directory / "input_ids.npy", np.zeros((3, 3)))
    index = json.loads((directory / "index.json").read_text())
    (directory / "index.json").write_text(json.dumps(index | {"key": "of other features"}))
    after = open_rows(tiny_features.held_out, say=lambda line: None).take(np.array([0, 1]))
    assert after.input_ids.tolist() == before.input_ids.tolist()


def test_features_that_are_not_there() -> None:
    with pytest.raises(JaxLMError, match="no features at nowhere/train"):
        open_rows("nowhere/train")


def test_weights_and_subsets_come_through(tmp_path: Path, tiny_features: TinyFeatures) -> None:
    records = [
        {"in_text": "question? ", "out_text": "answer!", "meta": {"pile_set_name": "qa"}},
        {"text": "only text " * 30, "meta": {"pile_set_name": "prose"}},
    ]
    path = tmp_path / "mixed.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    prefix = str(tmp_path / "mixed")
    options = PreprocessOptions(max_sequence_length=16)
    preprocess(str(path), tiny_features.tokenizer, prefix, options, say=lambda line: None)
    rows = open_rows(prefix, say=lambda line: None)
    everything = np.arange(len(rows))
    batch = causal_lm(rows.take(everything))
    assert {rows.subsets[i] for i in rows.subset_ids(everything)} == {"qa", "prose"}
    qa = rows.subset_ids(everything) == rows.subsets.index("qa")
    assert rows.num_bytes(everything)[qa].sum() == len("answer!")
    assert 0 < batch.loss_mask[qa].sum() < len("question? answer!")


def test_a_damaged_file_is_not_decoded(tiny_features: TinyFeatures, tmp_path: Path) -> None:
    for path in Path(tiny_features.train).parent.glob("*train*"):
        if not path.name.endswith(".rows"):
            copy = shutil.copytree if path.is_dir() else shutil.copy
            copy(path, tmp_path / path.name)
    (path,) = tmp_path.glob("train-*.parquet")
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)
    with pytest.raises(JaxLMError, match=rf"{path.name}: damaged, its sha256"):
        open_rows(str(tmp_path / "train"))
    assert not (tmp_path / "_train.rows").exists()

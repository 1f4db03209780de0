"""Cutting a part of a shard at a time: the same rows, in little memory."""

import tracemalloc

import numpy as np
import pyarrow.parquet as pq
import pytest

from jax_lm.preprocessing.cutting import blocks
from jax_lm.preprocessing.cutting.base import Cutting
from jax_lm.preprocessing.cutting.blocks import cut_in_blocks
from jax_lm.preprocessing.cutting.modes import MODES
from jax_lm.preprocessing.cutting.rows import join_rows
from jax_lm.preprocessing.manifest import feature_files
from jax_lm.preprocessing.tokenized import tokenize
from jax_lm.preprocessing.verify import verify_features
from tests.preprocessing.cutting_fakes import special_ids
from tests.preprocessing.preprocessing_fakes import ByteTokenizer, ListSource, document

PLAIN = [document("abc " * (place % 7), subset=str(place % 2)) for place in range(30)]
TURNS = [
    document(*[("q" * place, 0.0), ("answer" * (place % 3), 1.0)] * 2) for place in range(1, 20)
]
HALF = [*PLAIN, document(("a", 0.5))]
CASES = {
    "windows": (PLAIN, {"stride": 3, "sentences": True}),
    "rolling": (HALF, {"context_length": 4}),
    "documents": (PLAIN, {"sentences": True}),
    "pairs": (TURNS, {"max_input_length": 5, "kind": "pairs"}),
    "packed": (PLAIN, {"segment_ids": True}),
}


@pytest.mark.parametrize("mode", CASES)
@pytest.mark.parametrize("places", [1, 40, 200, 10_000])
def test_parts_joined_are_the_whole(monkeypatch, mode, places):
    documents, settings = CASES[mode]
    cutting = Cutting(
        mode=mode, sequence_length=8, special=special_ids(), **{"kind": "labels", **settings}
    )
    find = (lambda text: range(2, len(text) + 1, 2)) if cutting.sentences else None
    tokenized = tokenize(documents, ByteTokenizer(), sentence_ends=find)
    whole = MODES[mode](tokenized, cutting)
    monkeypatch.setattr(blocks, "BLOCK_PLACES", places)
    parts = list(cut_in_blocks(tokenized, cutting))
    assert (len(parts) > 1) == (places < 10_000 and mode != "packed")
    joined = join_rows(parts, tokenized.subsets)
    for one, other in zip(whole.rows, joined.rows, strict=True):
        assert np.array_equal(one, other)
    for name in ("num_bytes", "subset_ids", "targets", "tokens", "cut_off"):
        assert np.array_equal(getattr(whole, name), getattr(joined, name))
    assert dict(whole.dropped) == dict(joined.dropped)
    assert {part.kind for part in parts} == {whole.kind}


def test_a_set_written_in_parts_is_the_set(make, monkeypatch):
    documents = [document(f"{place}: abc. ", subset=str(place % 3)) for place in range(50)]
    options = {"mode": "documents", "shard_size": 200, "max_sequence_length": 16}
    one = make(ListSource(documents), make.prefix, **options)
    monkeypatch.setattr(blocks, "BLOCK_PLACES", 100)
    two = make(ListSource(documents), make.prefix + "-b", **options)
    for a, b in zip(feature_files(make.prefix), feature_files(make.prefix + "-b"), strict=True):
        assert pq.read_table(a) == pq.read_table(b)
        assert pq.read_metadata(b).num_row_groups == -(-len(pq.read_table(b)) // 5)
    assert (one.totals, one.subsets, one.dropped) == (two.totals, two.subsets, two.dropped)
    assert sum(totals.rows for totals in two.subsets.values()) == two.totals.rows == 50
    assert verify_features(make.prefix + "-b").problems == ()


def test_padding_takes_little_memory(make):
    documents = [document("short")] * 20_000  # 100 kB of text, 41 million places
    tracemalloc.start()
    manifest = make(
        ListSource(documents), mode="documents", shard_size=10**9, max_sequence_length=2048
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert manifest.totals.rows == 20_000
    assert peak < 160e6

"""Tokens -> rows, against cases by hand and an independent restatement."""

import numpy as np
import pytest

from jax_lm.errors import JaxLMError
from jax_lm.preprocessing.transforms import KINDS, needed_kind, pack, tokenize
from tests.preprocessing.preprocessing_fakes import EOS, ByteTokenizer, document

TEXTS = ["Blåbærsyltetøy på brødskiva.", "안녕하세요 세계", "", "The cat sat on the mat.\n", "é"]


def streams_of(*documents, separator=EOS, tokenizer=None):
    return tokenize(documents, tokenizer or ByteTokenizer(), separator)


def test_a_stream_is_separated_before_between_and_after():
    streams, count, text_bytes = streams_of(document("ab"), document("c"))
    assert streams[""].ids.tolist() == [EOS, 97, 98, EOS, 99, EOS]
    assert streams[""].ids.dtype == np.int32
    assert streams[""].spelled.tolist() == [0, 1, 1, 0, 1, 0]
    assert (count, text_bytes) == (2, 3)


def test_without_a_separator_documents_follow_each_other():
    assert streams_of(document("ab"), document("c"), separator=None).streams[""].ids.tolist() == [
        97, 98, 99,
    ]  # fmt: skip


def test_rows_by_hand():
    stream = streams_of(document("abc"), document("de")).streams[""]
    part = pack("", stream, 3, kind="shift", pad_id=7)
    assert part.rows.input_ids.tolist() == [
        [EOS, 97, 98, 99],
        [99, EOS, 100, 101],
        [101, EOS, 7, 7],
    ]
    assert part.rows.lengths.tolist() == [4, 4, 2]
    assert part.num_bytes.tolist() == [3, 2, 0]
    assert part.targets == 7


def test_a_tail_that_only_repeats_the_last_id_gives_no_row():
    stream = streams_of(document("abcde")).streams[""]  # 7 ids: 6 targets
    assert pack("", stream, 3, kind="shift", pad_id=0).rows.lengths.tolist() == [4, 4]


def test_a_lone_id_is_kept_in_a_row_though_nothing_is_scored():
    stream = streams_of(document("a"), separator=None).streams[""]
    part = pack("", stream, 3, kind="shift", pad_id=5)
    assert part.rows.input_ids.tolist() == [[97, 5, 5, 5]]
    assert (part.rows.lengths.tolist(), part.targets) == ([1], 0)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 16, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_every_id_is_scored_exactly_once_and_bytes_add_up(length, kind):
    documents = [document(text) for text in TEXTS]
    stream = streams_of(*documents).streams[""]
    part = pack("", stream, length, kind=kind, pad_id=0)
    scored = []
    for row, (ids, size) in enumerate(zip(part.rows.input_ids, part.rows.lengths, strict=True)):
        if kind == "shift":
            scored += ids[1:size].tolist()
        else:
            labels = part.rows.labels[row]
            assert labels[size:].tolist() == [-100] * (length - size)
            scored += [label for label in labels.tolist() if label != -100]
    expected = []
    for text in TEXTS:
        expected += [*text.encode(), EOS]
    assert scored == expected
    assert part.targets == len(expected)
    assert part.num_bytes.sum() == sum(len(text.encode()) for text in TEXTS)


def test_labels_are_the_next_token_and_weights_follow_them():
    source = document(("q:", 0.0), ("ab", 1.0), ("c", 0.5))
    stream = streams_of(source).streams[""]
    assert needed_kind([stream]) == "weights"
    part = pack("", stream, 4, kind="weights", pad_id=9)
    assert part.rows.input_ids.tolist() == [[EOS, 113, 58, 97], [98, 99, EOS, 9]]
    assert part.rows.labels.tolist() == [[-100, -100, 97, 98], [99, EOS, -100, -100]]
    assert part.rows.loss_weights.tolist() == [[0, 0, 1, 1], [0.5, 1, 0, 0]]
    assert part.num_bytes.tolist() == [2, 1]
    assert part.rows.lengths.tolist() == [4, 3]


def test_the_separator_after_a_document_of_context_is_not_scored():
    stream = streams_of(document(("ctx", 0.0)), document("a")).streams[""]
    assert stream.weights[1:].tolist() == [0, 0, 0, 0, 1, 1]
    assert needed_kind([stream]) == "labels"


def test_equal_weights_are_tokenized_joined_and_different_ones_apart():
    calls = []

    class Recording(ByteTokenizer):
        def encode_batch(self, texts, *, parse_special=False):
            calls.extend(texts)
            return super().encode_batch(texts)

    streams_of(
        document("a", "b"), document(("c", 0.5), ("d", 0.5)), document(("e", 0.0), ("f", 1.0)),
        tokenizer=Recording(),
    )  # fmt: skip
    assert calls == ["ab", "cd", "e", "f"]


def test_subsets_are_apart_and_in_order_of_appearance():
    streams = streams_of(
        document("a", subset="x"), document("b", subset="y"), document("c", subset="x")
    ).streams
    assert list(streams) == ["x", "y"]
    assert streams["x"].ids.tolist() == [EOS, 97, EOS, 99, EOS]
    assert streams["y"].ids.tolist() == [EOS, 98, EOS]


def test_an_ordinary_token_as_separator_spells_no_bytes():
    stream = streams_of(document("a\n"), separator=10).streams[""]
    assert stream.ids.tolist() == [10, 97, 10, 10]
    assert stream.spelled.tolist() == [0, 1, 1, 0]


def test_batches_do_not_show(monkeypatch):
    documents = [document(text, subset=str(len(text) % 2)) for text in TEXTS]
    whole = streams_of(*documents).streams
    monkeypatch.setattr("jax_lm.preprocessing.transforms.BATCH_CHARACTERS", 1)
    pieces = streams_of(*documents).streams
    assert list(whole) == list(pieces)
    for name in whole:
        assert all(np.array_equal(a, b) for a, b in zip(whole[name], pieces[name], strict=True))


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_a_weight_that_is_no_weight_names_the_document(weight):
    with pytest.raises(JaxLMError, match=r"^a\.jsonl:3: .*weight"):
        streams_of(document(("x", weight), name="a.jsonl:3"))


def test_no_documents_give_no_streams():
    assert streams_of() == ({}, 0, 0)

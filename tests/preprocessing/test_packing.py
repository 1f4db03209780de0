"""Tokens -> packed rows, against cases by hand and an independent restatement."""

import numpy as np
import pytest

from jax_lm.errors import JaxLMError
from jax_lm.preprocessing.cutting.base import Cutting, needed_kind
from jax_lm.preprocessing.cutting.packed import pack
from jax_lm.preprocessing.manifest import SpecialIds
from jax_lm.preprocessing.tokenized import tokenize
from jax_lm.tokenizers.base import Encoded
from jax_lm.types import Document, Segment
from tests.preprocessing.preprocessing_fakes import EOS, ByteTokenizer, document

TEXTS = ["Blåbærsyltetøy på brødskiva.", "안녕하세요 세계", "", "The cat sat on the mat.\n", "é"]
PACKED_KINDS = ("shift", "labels", "weights")


def packed(*documents, length=3, separator=EOS, pad=7, **settings):
    special = SpecialIds(bos=None, eos=EOS, pad=pad, separator=separator, all=(256, 257))
    cutting = Cutting(mode="packed", sequence_length=length, special=special, **settings)
    find = (lambda text: [len(text)]) if settings.get("sentences") else None
    return pack(tokenize(documents, ByteTokenizer(), sentence_ends=find), cutting)


def stream(*documents, separator=EOS):
    """The ids of the one row that holds everything."""
    features = packed(*documents, length=1000, separator=separator)
    return features.rows.input_ids[0, : features.rows.lengths[0]].tolist()


def test_a_stream_is_separated_before_between_and_after():
    assert stream(document("ab"), document("c")) == [EOS, 97, 98, EOS, 99, EOS]
    features = packed(document("ab"), document("c"), length=1000)
    assert (features.tokens, features.targets, features.num_bytes.tolist()) == (6, 5, [3])
    assert features.rows.input_ids.dtype == np.int32


def test_without_a_separator_documents_follow_each_other():
    assert stream(document("ab"), document("c"), separator=None) == [97, 98, 99]


def test_rows_by_hand():
    part = packed(document("abc"), document("de"))
    assert part.rows.input_ids.tolist() == [
        [EOS, 97, 98, 99],
        [99, EOS, 100, 101],
        [101, EOS, 7, 7],
    ]
    assert part.rows.lengths.tolist() == [4, 4, 2]
    assert part.num_bytes.tolist() == [3, 2, 0]
    assert (part.targets, part.kind) == (7, "shift")


def test_a_tail_that_only_repeats_the_last_id_gives_no_row():
    assert packed(document("abcde")).rows.lengths.tolist() == [4, 4]  # 7 ids: 6 targets


def test_a_lone_id_is_kept_in_a_row_though_nothing_is_scored():
    part = packed(document("a"), separator=None, pad=5)
    assert part.rows.input_ids.tolist() == [[97, 5, 5, 5]]
    assert (part.rows.lengths.tolist(), part.targets) == ([1], 0)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 16, 1000])
@pytest.mark.parametrize("kind", PACKED_KINDS)
def test_every_id_is_scored_exactly_once_and_bytes_add_up(length, kind):
    part = packed(*map(document, TEXTS), length=length, kind=kind)
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
    part = packed(document(("q:", 0.0), ("ab", 1.0), ("c", 0.5)), length=4, pad=9)
    assert part.kind == "weights"
    assert part.rows.input_ids.tolist() == [[EOS, 113, 58, 97], [98, 99, EOS, 9]]
    assert part.rows.labels.tolist() == [[-100, -100, 97, 98], [99, EOS, -100, -100]]
    assert part.rows.loss_weights.tolist() == [[0, 0, 1, 1], [0.5, 1, 0, 0]]
    assert part.num_bytes.tolist() == [2, 1]
    assert part.rows.lengths.tolist() == [4, 3]


def test_the_separator_after_a_document_of_context_is_not_scored():
    part = packed(document(("ctx", 0.0)), document("a"), length=6)
    assert part.rows.labels.tolist() == [[-100, -100, -100, -100, 97, EOS]]
    assert part.kind == "labels"


def test_equal_weights_are_tokenized_joined_and_different_ones_apart():
    calls = []

    class Recording(ByteTokenizer):
        def encode_batch(self, texts, *, parse_special=False):
            calls.extend(texts)
            return super().encode_batch(texts)

    documents = (
        document("a", "b"), document(("c", 0.5), ("d", 0.5)), document(("e", 0.0), ("f", 1.0))
    )  # fmt: skip
    weights = tokenize(documents, Recording()).weights
    assert calls == ["ab", "cd", "e", "f"]
    assert weights.tolist() == [1, 1, 0.5, 0.5, 0, 1]


def test_subsets_are_apart_and_in_order_of_appearance():
    part = packed(
        document("a", subset="x"), document("b", subset="y"), document("c", subset="x"),
        length=5,
    )  # fmt: skip
    assert part.subsets == ("x", "y")
    assert part.subset_ids.tolist() == [0, 1]
    assert part.rows.input_ids.tolist() == [[EOS, 97, EOS, 99, EOS, 7], [EOS, 98, EOS, 7, 7, 7]]


def test_an_ordinary_token_as_separator_spells_no_bytes():
    part = packed(document("a\n"), length=3, separator=10)
    assert part.rows.input_ids.tolist() == [[10, 97, 10, 10]]
    assert part.num_bytes.tolist() == [2]


def test_batches_do_not_show(monkeypatch):
    documents = [document(text, (text, 0.5), subset=str(len(text) % 2)) for text in TEXTS]
    whole = packed(*documents, sentences=True, segment_ids=True)
    monkeypatch.setattr("jax_lm.preprocessing.tokenized.BATCH_CHARACTERS", 1)
    pieces = packed(*documents, sentences=True, segment_ids=True)
    assert whole.subsets == pieces.subsets
    for one, other in zip(whole.rows, pieces.rows, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_a_weight_that_is_no_weight_names_the_document(weight):
    with pytest.raises(JaxLMError, match=r"^a\.jsonl:3: .*weight"):
        packed(document(("x", weight), name="a.jsonl:3"))


def test_no_documents_give_no_rows():
    assert packed() is None
    assert needed_kind(tokenize([], ByteTokenizer())) == "shift"


def test_segment_ids_count_documents_and_a_separator_begins_one():
    part = packed(document("ab"), document("c"), length=4, segment_ids=True, kind="labels")
    assert part.rows.input_ids.tolist() == [[EOS, 97, 98, EOS], [99, EOS, 7, 7]]
    assert part.rows.segment_ids.tolist() == [[1, 1, 1, 2], [1, 2, 0, 0]]
    assert part.rows.segment_ids.dtype == np.int16
    assert part.rows.labels.tolist() == [[97, 98, EOS, 99], [EOS, -100, -100, -100]]


def test_without_a_separator_no_document_is_predicted_from_another():
    given = {"separator": None, "length": 4, "segment_ids": True, "kind": "labels"}
    part = packed(document("ab"), document("cd"), **given)
    assert part.rows.segment_ids.tolist() == [[1, 1, 2, 2]]
    assert part.rows.labels.tolist() == [[98, -100, 100, -100]]


def test_sentence_ends_are_places_in_the_row():
    part = packed(document("ab", subset="x"), document("cde"), document("f"), sentences=True)
    # x: EOS a b EOS; the rest: EOS c d | e EOS f | EOS
    assert part.rows.sentence_ends.tolist() == [[3, -1], [-1, -1], [1, 3]]


def test_sentences_end_within_their_own_segment_whatever_markup_spells():
    class Marked(ByteTokenizer):
        """Markup is one token that spells nothing."""

        def encode_batch(self, texts, *, parse_special=False):
            encoded = super().encode_batch(texts)
            if not parse_special:
                return encoded
            ones = np.ones(len(texts), np.int32)
            return Encoded(257 * ones, np.arange(len(texts) + 1, dtype=np.int64), 0 * ones)

    turns = (Segment("<|user|>", 0, markup=True), Segment("Hi. Yo."), Segment("<|end|>", 0, True))
    documents = [Document(turns, "a"), Document(turns, "b")]
    tokens = tokenize(documents, Marked(), sentence_ends=lambda text: [3, len(text)])
    assert tokens.offsets.tolist() == [0, 9, 18]
    assert tokens.sentence_ends.tolist() == [4, 8, 13, 17]


def test_a_document_that_ends_with_the_separator_is_not_given_another():
    turns = [Segment("a"), Segment("", ids=np.array([EOS], np.int32))]
    ended, plain = Document(tuple(turns), "a"), document("b")
    part = packed(ended, plain, ended, length=9)
    assert part.rows.input_ids.tolist() == [[EOS, 97, EOS, 98, EOS, 97, EOS, 7, 7, 7]]
    part = packed(document("a\n"), document("b"), length=9, separator=10)
    assert part.rows.input_ids[0, :6].tolist() == [10, 97, 10, 10, 98, 10]

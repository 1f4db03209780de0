"""Mode documents: one document a row."""

from tests.preprocessing.cutting_fakes import BOS, PAD, cut, lists, special_ids
from tests.preprocessing.preprocessing_fakes import EOS, document


def test_rows_are_framed_padded_and_cut():
    texts = ["ab", "abc", "abcd", "abcdefg", ""]
    features = cut("documents", *map(document, texts), length=4)
    assert features.kind == "shift"
    assert features.rows.input_ids.tolist() == [
        [BOS, 97, 98, EOS, PAD],
        [BOS, 97, 98, 99, EOS],
        [BOS, 97, 98, 99, 100],
        [BOS, 97, 98, 99, 100],
    ]
    assert features.rows.lengths.tolist() == [4, 5, 5, 5]
    assert features.cut_off == 3
    assert features.dropped == {"documents without any token": 1}
    assert features.num_bytes.tolist() == [2, 3, 4, 4]
    assert (features.targets, features.tokens) == (15, 19)


def test_the_only_special_token_stands_on_both_sides():
    special = special_ids(bos=None, eos=None, separator=BOS)
    features = cut("documents", document("ab"), length=5, special=special)
    assert features.rows.input_ids.tolist() == [[BOS, 97, 98, BOS, PAD, PAD]]
    bare = cut(
        "documents", document("ab"), length=3, special=special_ids(None, None, separator=None)
    )
    assert bare.rows.input_ids.tolist() == [[97, 98, PAD, PAD]]


def test_labels_where_weights_need_them():
    features = cut("documents", document(("ask", 0.0), ("yes", 1.0)), length=8)
    assert lists(features) == [
        [[BOS, 97, 115, 107, 121, 101, 115, EOS]],
        [[1] * 8],
        [[-100, -100, -100, 121, 101, 115, EOS, -100]],
    ]
    context = cut("documents", document(("ask", 0.0)), document("b"), length=4)
    assert context.rows.labels.tolist() == [[-100] * 4, [98, EOS, -100, -100]]


def test_sentence_ends_count_the_first_token():
    features = cut("documents", document("a.bc."), length=8, find=lambda text: [2, 5])
    assert features.rows.sentence_ends.tolist() == [[3, 6]]

"""Mode windows, against an independent restatement of the program that it comes from."""

import numpy as np
import pytest

from jax_lm.errors import JaxLMError
from tests.preprocessing.cutting_fakes import BOS, PAD, cut, lists, special_ids
from tests.preprocessing.preprocessing_fakes import EOS, ByteTokenizer, document

TEXTS = ["x" * 40, "", "a!b" * 9, "Blåbær på brødskiva.", "\x00\x01" * 8, "z"]


def restated(texts, *, length, stride, minimum, reserved, special, defects):
    """The original's rows, one token after another; with ``defects``, id 0 is always padding."""
    rows = []
    pad = 0 if defects else PAD
    for text in texts:
        ids = list(text.encode())
        for start in range(0, len(ids), stride):
            chunk = ids[start : start + length - reserved + 1]
            if len(chunk) <= minimum - reserved:
                continue
            sequence = [i for i in (special.bos, *chunk, special.eos) if i is not None]
            real = [1] * len(sequence) + [0] * (length + 1 - len(sequence))
            sequence += [pad] * (length + 1 - len(sequence))
            if defects:
                real = [int(token > 0) for token in sequence]
            labels = [t if r else -100 for t, r in zip(sequence, real, strict=True)]
            rows.append((sequence[:length], real[:length], labels[1 : length + 1]))
    return [list(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("defects", [False, True])
@pytest.mark.parametrize("stride", [1, 5, 9, 14, 30])
@pytest.mark.parametrize(("length", "reserved"), [(10, 2), (16, 2), (16, 5), (64, 2)])
def test_rows_equal_the_original_algorithm(length, reserved, stride, defects):
    minimum = 6
    special = special_ids(pad=0 if defects else PAD)
    features = cut(
        "windows", *map(document, TEXTS), length=length, special=special, stride=stride,
        min_sequence_length=minimum, num_special_tokens=reserved, seed_compatible=defects,
        kind="labels",
    )  # fmt: skip
    expected = restated(
        TEXTS, length=length, stride=stride, minimum=minimum, reserved=reserved,
        special=special, defects=defects,
    )  # fmt: skip
    assert lists(features) == expected
    starts = sum(-(-len(text.encode()) // stride) for text in TEXTS)
    left_out = starts - len(expected[0])
    assert features.dropped.get("windows shorter than 6", 0) == left_out


def test_real_tokens_of_id_0_are_kept_unless_the_original_rows_are_asked_for():
    given = {"length": 6, "kind": "labels", "special": special_ids(pad=0)}
    plain = cut("windows", document("a\x00b"), **given)
    assert lists(plain) == [
        [[BOS, 97, 0, 98, EOS, 0]], [[1, 1, 1, 1, 1, 0]], [[97, 0, 98, EOS, -100, -100]]
    ]  # fmt: skip
    assert plain.num_bytes.tolist() == [3]
    seed = cut("windows", document("a\x00b"), seed_compatible=True, **given)
    assert lists(seed) == [
        [[BOS, 97, 0, 98, EOS, 0]], [[1, 1, 0, 1, 1, 0]], [[97, -100, 98, EOS, -100, -100]]
    ]  # fmt: skip
    assert seed.num_bytes.tolist() == [2]


@pytest.mark.parametrize("bos", [BOS, None])
@pytest.mark.parametrize("length", [2, 3, 7, 11, 100])
def test_by_default_every_token_is_a_target_once(bos, length):
    special = special_ids(bos=bos, eos=None, separator=None)
    features = cut("windows", *map(document, TEXTS), length=length, special=special, kind="labels")
    scored = [label for label in features.rows.labels.reshape(-1).tolist() if label != -100]
    skipped = 0 if bos is not None else 1  # a document's first token is context then
    assert scored == [byte for text in TEXTS for byte in text.encode()[skipped:]]
    assert features.dropped == {"documents without any token": 1}
    assert features.cut_off == 0


def test_every_window_is_framed_and_eos_stands_in_for_bos():
    features = cut("windows", document("abcde"), length=4, special=special_ids(bos=None),
                   kind="labels")  # fmt: skip
    assert lists(features) == [
        [[EOS, 97, 98, 99], [EOS, 100, 101, EOS]],
        [[1, 1, 1, 1], [1, 1, 1, 1]],
        [[97, 98, 99, EOS], [100, 101, EOS, -100]],
    ]
    assert features.rows.input_ids.dtype == np.int32


def test_what_is_left_out_is_counted():
    documents = [document("abcdefgh"), document("ij")]
    features = cut("windows", *documents, length=6, min_sequence_length=5, kind="labels")
    # Chunks abcde (6 targets, EOS included), fgh (4) and ij (3).
    assert features.rows.labels.tolist() == [[97, 98, 99, 100, 101, EOS]]
    assert features.dropped == {"windows shorter than 5": 2}
    assert features.cut_off == 5
    gaps = cut("windows", document("abcdefghij"), length=4, stride=5, kind="labels")
    assert gaps.cut_off == 4  # d e and i j lie between the windows


def test_nothing_long_enough_gives_no_rows_but_says_why():
    features = cut("windows", document("ab"), length=8, min_sequence_length=8, kind="labels")
    assert len(features.rows.input_ids) == 0
    assert features.dropped == {"windows shorter than 8": 1}
    assert cut("windows", length=8).dropped == {}


def test_weights_follow_their_tokens_and_eos_what_it_closes():
    features = cut("windows", document(("ask", 0.0), ("yes", 0.5)), length=4)
    assert features.rows.labels.tolist() == [[-100, -100, -100, -100], [121, 101, 115, EOS]]
    assert features.rows.loss_weights.tolist() == [[0, 0, 0, 0], [0.5, 0.5, 0.5, 1]]
    assert features.num_bytes.tolist() == [0, 3]
    assert features.kind == "weights"


def test_a_document_that_is_already_framed_is_not_framed_twice():
    class Chat(ByteTokenizer):
        def encode_batch(self, texts, *, parse_special=False):
            encoded = super().encode_batch(texts)
            ids = np.where(encoded.ids == 60, BOS, encoded.ids)  # < begins, > ends
            return encoded._replace(ids=np.where(ids == 62, EOS, ids).astype(np.int32))

    features = cut("windows", document("<ab>"), length=5, kind="labels", tokenizer=Chat())
    assert lists(features)[0] == [[BOS, 97, 98, EOS, PAD]]


def test_rows_keep_their_documents_subset():
    features = cut(
        "windows", document("abcdefg", subset="x"), document("h", subset="y"),
        document("i", subset="x"), length=5, kind="labels",
    )  # fmt: skip
    assert features.subsets == ("x", "y")
    assert features.subset_ids.tolist() == [0, 0, 1, 0]


def test_no_room_for_text_is_said():
    with pytest.raises(JaxLMError, match="--max-sequence-length 1 leaves no room"):
        cut("windows", document("ab"), length=1)


def test_sentences_end_where_they_do_in_each_window():
    def find(text):
        return [3, 8]

    features = cut("windows", document("ab.cdef."), length=6, find=find, kind="labels")
    # BOS ab.cd | BOS ef. EOS: places after the last token of each sentence
    assert features.rows.sentence_ends.tolist() == [[4], [4]]

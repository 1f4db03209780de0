"""Mode pairs: inputs and outputs apart."""

import numpy as np

from jax_lm.preprocessing.cutting.pairs import NO_INPUT, NO_OUTPUT, OTHER_WEIGHTS
from tests.preprocessing.cutting_fakes import PAD, cut, special_ids
from tests.preprocessing.preprocessing_fakes import EOS, document


def pair(question, answer, **given):
    return document((question, 0.0), (answer, 1.0), **given)


def test_inputs_lose_their_start_and_outputs_their_end():
    features = cut(
        "pairs", pair("ab", "xyz"), pair("abcdef", "vwxyz"), length=9,
        max_input_length=3, max_output_length=4,
    )  # fmt: skip
    assert features.rows.input_ids.tolist() == [[97, 98, PAD], [100, 101, 102]]
    assert features.rows.lengths.tolist() == [2, 3]
    assert features.rows.target_ids.tolist() == [[120, 121, 122, EOS], [118, 119, 120, 121]]
    assert features.rows.target_lengths.tolist() == [4, 4]
    assert features.cut_off == 4  # a b c and z
    assert features.num_bytes.tolist() == [3, 4]
    assert (features.targets, features.tokens) == (8, 13)
    assert features.kind == "pairs" and features.rows.labels is None


def test_lengths_default_to_t_and_no_eos_is_invented():
    features = cut("pairs", pair("a", "b"), length=3, special=special_ids(eos=None))
    assert features.rows.target_ids.tolist() == [[98, PAD, PAD]]
    assert features.rows.input_ids.shape == (1, 3)
    assert features.rows.target_lengths.tolist() == [1]


def test_what_is_no_pair_is_left_out_and_counted():
    features = cut(
        "pairs", document("plain"), pair("ask", ""), document(("context", 0.0)), document(),
        pair("", "answer"), document(("u", 0.0), ("a", 0.5)), pair("q", "r", subset="kept"),
        length=4,
    )  # fmt: skip
    assert features.rows.input_ids.tolist() == [[113, PAD, PAD, PAD]]
    assert features.subsets[features.subset_ids[0]] == "kept"
    assert features.dropped == {NO_OUTPUT: 3, NO_INPUT: 2, OTHER_WEIGHTS: 1}
    assert features.cut_off == len("plain") + len("ask") + len("context") + len("answer") + 2


def test_a_conversation_gives_a_pair_for_each_answer():
    turns = [("u", 0.0), ("ab", 1.0), ("vw", 0.0), ("c", 1.0), ("!", 0.0)]
    features = cut("pairs", pair("x", "y"), document(*turns), pair("z", "y"), length=4)
    assert features.rows.input_ids.tolist() == [
        [120, PAD, PAD, PAD], [117, PAD, PAD, PAD], [97, 98, 118, 119], [122, PAD, PAD, PAD]
    ]  # fmt: skip
    assert features.rows.target_ids[:3].tolist() == [
        [121, EOS, PAD, PAD], [97, 98, EOS, PAD], [99, EOS, PAD, PAD]
    ]  # fmt: skip
    assert features.num_bytes.tolist() == [1, 2, 1, 1]
    assert features.cut_off == 1  # the closing !


def test_answers_of_neighbouring_documents_are_apart():
    features = cut("pairs", document(("q", 0.0), ("a", 1.0)), document("b"), length=3)
    assert features.rows.target_ids.tolist() == [[97, EOS, PAD]]
    assert features.dropped == {NO_INPUT: 1}


def test_plain_text_alone_gives_no_rows_but_a_reason():
    features = cut("pairs", document("plain"), length=4)
    assert len(features.num_bytes) == 0 and features.kind == "pairs"
    assert features.dropped == {NO_INPUT: 1}


def test_markup_that_closes_a_turn_is_cut_off():
    features = cut("pairs", document(("q", 0.0), ("ab", 1.0), ("\n", 0.0)), length=4)
    assert features.rows.target_ids.tolist() == [[97, 98, EOS, PAD]]
    assert features.cut_off == 1


def test_an_output_that_ends_with_eos_gets_no_second():
    class Closing:
        def __getattr__(self, name):
            from tests.preprocessing.preprocessing_fakes import ByteTokenizer

            return getattr(ByteTokenizer(), name)

        def encode_batch(self, texts, *, parse_special=False):
            encoded = self.__getattr__("encode_batch")(texts)
            return encoded._replace(
                ids=np.where(encoded.ids == 36, EOS, encoded.ids).astype(np.int32)
            )

    features = cut("pairs", pair("q", "r$"), length=4, tokenizer=Closing())
    assert features.rows.target_ids.tolist() == [[114, EOS, PAD, PAD]]

"""seq2seq and dialogue, by hand."""

import numpy as np
import pytest

from jax_lm.errors import JaxLMError, UsageError
from jax_lm.objectives.dialogue import DialogueConfig
from jax_lm.objectives.seq2seq import Seq2SeqConfig
from jax_lm.types import Rows
from tests.objectives.objective_fakes import (
    BOS,
    EOS,
    PAD,
    START,
    SYS,
    TOKENIZER,
    USR,
    SpecialTokenizer,
    draws,
    objective,
)  # fmt: skip


def pairs(*each: tuple[list[int], list[int]], width: int = 8) -> Rows:
    def filled(column: int) -> np.ndarray:
        lines = [pair[column] for pair in each]
        return np.array([[*line, *[PAD] * (width - len(line))] for line in lines])

    sizes = [np.array([len(pair[column]) for pair in each]) for column in (0, 1)]
    return Rows(filled(0), sizes[0], target_ids=filled(1), target_lengths=sizes[1])


ROWS = pairs(([10, 11], [20, EOS]), ([10, 11, 12, 13, 14], [20, 21, 22, 23, 24, EOS]))


def scored(batch) -> list[list[int]]:
    lines = zip(batch.targets, batch.loss_mask, strict=True)
    return [targets[weights > 0].tolist() for targets, weights in lines]


def test_decoders_read_both_in_one_row() -> None:
    batch = objective(Seq2SeqConfig(), "decoder", 6)(ROWS, draws(2))
    assert batch.input_ids.tolist() == [
        [BOS, 10, 11, 20, EOS, PAD],
        [BOS, 12, 13, 14, 20, 21],  # six places: three for each
    ]
    assert scored(batch) == [[20, EOS], [20, 21, 22]]
    assert batch.segment_ids.tolist() == [[1] * 5 + [0], [1] * 6]


def test_an_output_takes_what_its_input_leaves() -> None:
    rows = pairs(([10], [20, 21, 22, 23, 24, EOS]), ([10, 11, 12, 13, 14, 15], [EOS]))
    batch = objective(Seq2SeqConfig(), "decoder", 6)(rows, draws(2))
    assert batch.input_ids.tolist() == [[BOS, 10, 20, 21, 22, 23], [BOS, 11, 12, 13, 14, 15]]
    assert scored(batch) == [[20, 21, 22, 23, 24], [EOS]]
    short = objective(Seq2SeqConfig(), "decoder", 6, target_length=2)(rows, draws(2))
    assert scored(short) == [[20, 21], [EOS]]


def test_a_bos_that_is_there_is_not_repeated() -> None:
    rows = pairs(([BOS, 10], [20, EOS]))
    batch = objective(Seq2SeqConfig(), "decoder", 6)(rows, draws(1))
    assert batch.input_ids.tolist() == [[BOS, 10, 20, EOS, PAD, PAD]]
    without = objective(Seq2SeqConfig(), "decoder", 4, TOKENIZER.without("bos_id"))
    assert without(ROWS, draws(2)).input_ids[0].tolist() == [10, 11, 20, EOS]


def test_encoder_decoders_read_them_apart() -> None:
    make = objective(Seq2SeqConfig(), "encoder-decoder", 6, target_length=4)
    batch = make(ROWS, draws(2))
    assert batch.input_ids.tolist() == [[BOS, 10, 11, EOS, PAD, PAD], [BOS, 11, 12, 13, 14, EOS]]
    assert batch.segment_ids.tolist() == [[1] * 4 + [0] * 2, [1] * 6]
    assert batch.targets.tolist() == [[20, EOS, PAD, PAD], [20, 21, 22, 23]]
    assert batch.decoder_input_ids.tolist() == [[START, 20, EOS, PAD], [START, 20, 21, 22]]
    assert batch.loss_mask.tolist() == [[1, 1, 0, 0], [1] * 4]
    bare = objective(Seq2SeqConfig(frame_inputs=False), "encoder-decoder", 3)(ROWS, draws(2))
    assert bare.input_ids.tolist() == [[10, 11, PAD], [12, 13, 14]]


def test_dialogues_are_framed_and_the_answer_scored() -> None:
    batch = objective(DialogueConfig(), "decoder", 12)(ROWS, draws(2))
    assert batch.input_ids.tolist() == [
        [USR, BOS, 10, 11, EOS, SYS, BOS, 20, EOS, PAD, PAD, PAD],
        [USR, BOS, 10, 11, 12, 13, 14, EOS, SYS, BOS, 20, 21],
    ]
    assert scored(batch) == [[20, EOS], [20, 21, 22]]  # the second is cut
    padded = objective(DialogueConfig(score_padding=True), "decoder", 12)(ROWS, draws(2))
    assert scored(padded) == [[20, EOS, PAD], [20, 21, 22]]


def test_a_question_that_fills_the_row_keeps_its_last_half() -> None:
    batch = objective(DialogueConfig(), "decoder", 8)(ROWS, draws(2))
    assert batch.input_ids[1].tolist() == [12, 13, 14, EOS, SYS, BOS, 20, 21]
    assert scored(batch)[1] == [20, 21, 22]


def test_alpha_gives_some_rows_their_question_for_an_answer() -> None:
    rows = pairs(*[([10, 11], [20, 21, 22, EOS])] * 4000)
    batch = objective(DialogueConfig(alpha=0.25), "decoder", 12)(rows, draws(4000))
    answers = scored(batch)
    assert all(answer in ([10, 11, EOS], [20, 21, 22, EOS]) for answer in answers)
    blended = answers.count([10, 11, EOS])
    assert abs(blended - 1000) < 3 * (4000 * 0.25 * 0.75) ** 0.5


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(
        JaxLMError, match=r"needs the special tokens <sys>, <usr>|<usr>, <sys>.* ds"
    ):
        objective(DialogueConfig(), "decoder", 8, SpecialTokenizer(names=("<s>", "<pad>", "</s>")))
    with pytest.raises(JaxLMError, match=r"hold no pairs of input and output: .* --mode pairs"):
        objective(Seq2SeqConfig(), "decoder", 8)(Rows(np.ones((1, 9)), np.array([9])), draws(1))
    with pytest.raises(JaxLMError, match="inputs of 2 tokens have no room"):
        objective(Seq2SeqConfig(), "encoder-decoder", 2)
    with pytest.raises(UsageError, match=r"alpha is 2\.0, expected a share"):
        DialogueConfig(alpha=2.0)

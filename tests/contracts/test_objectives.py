"""What every objective keeps to; a new one is a new row of ``CASES``."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from jax_lm.objectives.base import RowDraws, places
from jax_lm.objectives.causal_lm import CausalLMConfig
from jax_lm.objectives.denoising import DenoisingConfig
from jax_lm.objectives.dialogue import DialogueConfig
from jax_lm.objectives.masked_lm import MaskedLMConfig
from jax_lm.objectives.registry import MAKERS, OBJECTIVES
from jax_lm.objectives.seq2seq import Seq2SeqConfig
from jax_lm.objectives.span_corruption import SpanCorruptionConfig, lengths_for_input
from jax_lm.types import Batch, Rows
from tests.objectives.objective_fakes import (
    BOS,
    EOS,
    FIRST,
    LAST,
    MASK,
    PAD,
    START,
    SYS,
    TOKENIZER,
    USR,
    SpecialTokenizer,
    distinct_pairs,
    distinct_rows,
    draws,
    objective,
    sentinel,
)  # fmt: skip

T = 64
RAW = lengths_for_input(T).raw
ENDS = [9, 15, 22, 30, 41, 52, 60]


def taken(batch: Batch, row: int) -> list[int]:
    """The real inputs of a row."""
    ids = batch.input_ids[row]
    return (ids if batch.segment_ids is None else ids[batch.segment_ids[row] > 0]).tolist()


def asked(batch: Batch, row: int) -> list[int]:
    """The scored targets of a row."""
    return batch.targets[row][batch.loss_mask[row] > 0].tolist()


def of_causal(batch, row):
    return [int(batch.input_ids[row, 0]), *asked(batch, row)]


def of_masked(batch, row):
    ids = np.where(batch.loss_mask[row] > 0, batch.targets[row], batch.input_ids[row])
    return ids[batch.segment_ids[row] > 0].tolist()


def of_spans(batch, row):
    """Each sentinel of the input gives way to what follows it in the targets."""
    spans: dict[int, list[int]] = {}
    targets = asked(batch, row)
    assert targets.pop() == EOS
    for token in targets:
        if token >= LAST:
            spans[token] = current = []
        else:
            current.append(token)
    assert list(spans) == [sentinel(number) for number in range(len(spans))]
    inputs = taken(batch, row)
    assert inputs.pop() == EOS
    return [token for one in inputs for token in spans.get(one, [one])]


def of_denoising(batch, row):
    """What is left of the row stands in the input: nothing new but mask tokens."""
    targets, inputs = asked(batch, row), taken(batch, row)
    assert set(inputs) <= {*targets, MASK}
    assert [i for i in targets if i < FIRST] == [i for i in inputs if i < FIRST and i != MASK]
    return targets


def of_joined(batch, row):
    line = [*batch.input_ids[row].tolist(), int(batch.targets[row, -1])]
    stop = int(np.flatnonzero(batch.loss_mask[row])[-1]) + 2
    return line[1:stop]


def of_apart(batch, row):
    inputs = taken(batch, row)
    assert (inputs[0], inputs[-1]) == (BOS, EOS)
    return [*inputs[1:-1], *asked(batch, row)]


def of_dialogue(batch, row):
    line = of_joined(batch, row)
    here = line.index(SYS)
    assert int(batch.input_ids[row, 0]) == USR
    assert line[0] == line[here + 1] == BOS and line[here - 1] == line[-1] == EOS
    return line[1 : here - 1] + line[here + 2 :]


class Case(NamedTuple):
    config: Any
    kind: str
    rows: Rows
    restore: Callable[[Batch, int], list[int]]
    draws: bool = True


CASES = {
    "causal-lm": Case(CausalLMConfig(), "decoder", distinct_rows(12, T + 1), of_causal, False),
    "masked-lm": Case(
        MaskedLMConfig(), "encoder", distinct_rows(12, T, special=(0, 20, 40)), of_masked
    ),
    "span-corruption": Case(
        SpanCorruptionConfig(), "encoder-decoder", distinct_rows(12, RAW), of_spans
    ),
    "denoising": Case(
        DenoisingConfig(), "encoder-decoder",
        distinct_rows(12, T, special=(0, 30, 63), ends=ENDS), of_denoising,
    ),
    "seq2seq joined": Case(
        Seq2SeqConfig(), "decoder", distinct_pairs(12, 40, 24), of_joined, False
    ),
    "seq2seq apart": Case(
        Seq2SeqConfig(), "encoder-decoder", distinct_pairs(12, 40, 24), of_apart, False
    ),
    "dialogue": Case(DialogueConfig(), "decoder", distinct_pairs(12, 30, 24), of_dialogue, False),
    "dialogue with alpha": Case(
        DialogueConfig(alpha=0.5), "decoder", distinct_pairs(12, 30, 24), of_dialogue
    ),
}  # fmt: skip


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.fixture
def make(case: Case):
    return objective(case.config, case.kind, T)


def rows_at(rows: Rows, indices: np.ndarray) -> Rows:
    return Rows(*(None if column is None else column[indices] for column in rows))


def same(one: Batch, other: Batch) -> bool:
    pairs = zip(one, other, strict=True)
    return all((a is None and b is None) or np.array_equal(a, b) for a, b in pairs)


def test_every_objective_and_kind_of_model_is_here() -> None:
    assert {(case.config.name, case.kind) for case in CASES.values()} == set(MAKERS)
    assert {name for name, _ in MAKERS} == set(OBJECTIVES)


def test_batches_depend_on_seed_and_place_alone(case: Case, make) -> None:
    batch = make(case.rows, draws(12))
    assert same(batch, make(case.rows, draws(12)))
    assert same(batch, make(case.rows, draws(12, seed=1))) != case.draws
    assert same(batch, make(case.rows, draws(12, first=12))) != case.draws


def test_a_row_is_the_same_in_every_batch(case: Case, make) -> None:
    whole = make(case.rows, draws(12, seed=7))
    some = np.array([5, 0, 11, 3])
    part = make(rows_at(case.rows, some), RowDraws(7, some))
    assert same(part, Batch(*(None if a is None else a[some] for a in whole)))


def test_shapes_types_and_padding(case: Case, make) -> None:
    batch = make(case.rows, draws(12))
    assert batch.input_ids.shape == (12, T)
    assert batch.targets.shape == batch.loss_mask.shape
    arrays = [array for array in batch if array is not None]
    assert [a.dtype for a in arrays if a is not batch.loss_mask] == [np.int32] * (len(arrays) - 1)
    assert batch.loss_mask.dtype == np.float32 and (batch.loss_mask.sum(axis=1) > 0).all()
    assert all((a >= 0).all() and (a < TOKENIZER.vocab_size).all() for a in arrays)
    assert (batch.decoder_input_ids is not None) == (case.kind == "encoder-decoder")
    if batch.segment_ids is not None:
        sizes = (batch.segment_ids > 0).sum(axis=1)
        assert np.array_equal(batch.segment_ids > 0, places(sizes, T))
        assert (batch.input_ids[batch.segment_ids == 0] == PAD).all()
    if batch.decoder_input_ids is not None:
        assert (batch.decoder_input_ids[:, 0] == START).all()
        assert np.array_equal(batch.decoder_input_ids[:, 1:], batch.targets[:, :-1])
    else:
        assert batch.targets.shape == batch.input_ids.shape


def test_an_empty_batch_of_rows_is_no_special_case(case: Case, make) -> None:
    empty = make(rows_at(case.rows, np.arange(0)), draws(0))
    assert all(len(array) == 0 for array in empty if array is not None)


def test_no_target_is_visible_where_it_is_predicted(case: Case) -> None:
    config = case.config
    if config.name == "masked-lm":  # of the others, a tenth each is meant to be seen or misleading
        config = MaskedLMConfig(mask_share=1.0, random_share=0.0)
    if config.name == "dialogue" and config.alpha > 0:
        pytest.skip("an answer that is its question is visible, and meant to be")
    batch = objective(config, case.kind, T)(case.rows, draws(12))
    for row, place in zip(*np.nonzero(batch.loss_mask), strict=True):
        target = int(batch.targets[row, place])
        before = batch.input_ids[row, : place + 1].tolist()
        if case.kind == "encoder":
            before = taken(batch, row)
        elif batch.decoder_input_ids is not None:
            before = batch.decoder_input_ids[row, : place + 1].tolist()
            # What denoising leaves of a row in its input is what it is restored from.
            before += taken(batch, row) if config.name != "denoising" else []
        assert not FIRST <= target < LAST or target not in before, (row, place)


def test_inputs_and_targets_give_the_row_back(case: Case, make) -> None:
    batch, rows = make(case.rows, draws(12)), case.rows
    for row in range(12):
        if getattr(case.config, "alpha", 0) > 0:
            question = rows.input_ids[row, : rows.lengths[row]].tolist()
            assert case.restore(batch, row)[: len(question)] == question
            continue
        expected = rows.input_ids[row, : rows.lengths[row]].tolist()
        if rows.target_ids is not None:
            expected += rows.target_ids[row, : rows.target_lengths[row]].tolist()
        assert case.restore(batch, row) == expected


def within_3_sigma(count: int, of: int, share: float) -> bool:
    return abs(count - of * share) <= 3 * np.sqrt(of * share * (1 - share))


def test_masking_rates_over_a_million_tokens() -> None:
    rows = distinct_rows(2001, 320, special=range(0, 320, 40))
    wide = Rows(np.tile(rows.input_ids[:2000], (1, 2)), np.full(2000, 640))
    ids, config = wide.input_ids, MaskedLMConfig()
    batch = objective(config, "encoder", 640)(wide, draws(2000, seed=3))
    ordinary, chosen = ids >= FIRST, batch.loss_mask > 0
    assert ordinary.sum() > 1_000_000 and not chosen[~ordinary].any()
    assert np.array_equal(batch.targets[chosen], ids[chosen])
    assert np.array_equal(batch.input_ids[~chosen], ids[~chosen])
    count = int(chosen.sum())
    assert within_3_sigma(count, int(ordinary.sum()), 0.15)
    masked = batch.input_ids[chosen] == MASK
    kept = batch.input_ids[chosen] == ids[chosen]
    lucky = 0.1 / (LAST - FIRST)  # a random token may be the token itself
    assert within_3_sigma(int(masked.sum()), count, 0.8)
    assert within_3_sigma(int(kept.sum()), count, 0.1 + lucky)
    others = batch.input_ids[chosen][~masked & ~kept]
    assert within_3_sigma(len(others), count, 0.1 - lucky)
    assert set(others.tolist()) == set(range(FIRST, LAST))


@pytest.mark.parametrize("length", [128, 256, 512, 1024])
def test_span_corruption_fills_its_input_exactly(length: int) -> None:
    published = {128: (141, 29), 256: (284, 58), 512: (568, 114), 1024: (1137, 229)}
    raw, target = published[length]
    tokenizer = SpecialTokenizer(sentinels=100)
    make = objective(SpanCorruptionConfig(), "encoder-decoder", length, tokenizer)
    ids = np.random.default_rng(0).integers(FIRST, 200, (50, raw))
    batch = make(Rows(ids, np.full(50, raw)), draws(50))
    assert batch.input_ids.shape == (50, length) and batch.targets.shape == (50, target)
    assert (batch.segment_ids == 1).all() and (batch.loss_mask == 1).all()
    noise = [sum(FIRST <= i < 200 for i in row) for row in batch.targets.tolist()]
    assert set(noise) == {round(raw * 0.15)}

import importlib
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from jax_lm.errors import UsageError
from jax_lm.generation import beam
from jax_lm.generation.beam import Beam, BeamConfig, beam_search
from jax_lm.generation.decode import generate
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.huggingface.directory import load_model
from tests.parity.llama2c_files import write_directory
from tests.parity.parity_cases import Case, random_model

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

FAMILIES = {"gpt2": 0, "gpt_neox": 0, "gptj": 0, "opt": 0, "llama": 0, "t5": 1, "bart": 0}
"""And which of its cases: transformers cannot search with T5 stacks of unequal depth."""
PROMPTS = [[3, 14, 15, 9, 26, 5], [35, 8], [97, 93, 23, 8]]
LENGTH = 6
PADDING = 9_999
SETTINGS = {
    "plain": {},
    "length penalty 2": {"length_penalty": 2.0},
    "no length penalty": {"length_penalty": 0.0},
    "negative length penalty": {"length_penalty": -1.0},
    "early stopping": {"early_stopping": True},
    "repetition penalty": {"repetition_penalty": 1.7},
    "least length": {"min_new_tokens": 4},
    "everything": {
        "length_penalty": 0.6,
        "early_stopping": True,
        "repetition_penalty": 1.3,
        "min_new_tokens": 2,
    },
}


FEW = (pytest.param("no length penalty", marks=pytest.mark.slow), "everything")
PROMPTS_31 = [[3, 1, 4, 1, 5], [9], [2, 6, 5, 3, 5, 8, 9, 7, 9, 3]]
"""For models of 31 ids."""


class Pair(NamedTuple):
    """The same weights, theirs and ours, and tokens that beams meet after a few steps."""

    theirs: Any
    ours: Any
    stops: list[int]


def pair_of(family: str, folder: Path) -> Pair:
    cases = importlib.import_module(f"tests.parity.cases_{family}").CASES
    case: Case = list(cases.values())[FAMILIES[family]]
    theirs = random_model(case)
    theirs.save_pretrained(folder)
    ids = [one.ids for prompt in PROMPTS for one in searched(theirs, prompt, [])]
    return Pair(theirs, load_model(folder), sorted({ids[0][2], ids[3][3]}))


SLOW_T5 = ["gpt2", pytest.param("t5", marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=["gpt2", "t5"])
def pair(request, tmp_path_factory) -> Pair:
    return pair_of(request.param, tmp_path_factory.mktemp(request.param))


def searched(theirs: Any, prompt: list[int], stops: list[int], **settings: Any) -> list[Beam]:
    """What transformers finds for one prompt."""
    settings = {"max_new_tokens": LENGTH, "num_beams": 3, "num_return_sequences": 2, **settings}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        found = theirs.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            do_sample=False,
            eos_token_id=stops or None,
            pad_token_id=PADDING,
            forced_eos_token_id=None,
            return_dict_in_generate=True,
            output_scores=True,
            **settings,
        )
    skipped = 1 if theirs.config.is_encoder_decoder else len(prompt)
    beams = []
    for row, score in zip(found.sequences.tolist(), found.sequences_scores.tolist(), strict=True):
        ids = [token for token in row[skipped:] if token != PADDING]
        stopped = ids[-1] in stops
        beams.append(Beam(ids[: len(ids) - stopped], score, "stop" if stopped else "length"))
    return beams


def assert_equal_searches(
    pair: Pair, stops: list[int], prompts: list[list[int]] = PROMPTS, **settings: Any
) -> list[list[Beam]]:
    settings = {"max_new_tokens": LENGTH, **settings}
    config = BeamConfig(num_beams=3, num_returns=2, stop_ids=tuple(stops), **settings)
    ours = beam_search(pair.ours, prompts, config, eos_id=None)
    for prompt, found in zip(prompts, ours, strict=True):
        expected = searched(pair.theirs, prompt, stops, **settings)
        assert [b.ids for b in found] == [b.ids for b in expected]
        assert [b.finish for b in found] == [b.finish for b in expected]
        np.testing.assert_allclose([b.score for b in found], [b.score for b in expected], rtol=1e-5)
    return ours


@pytest.mark.parametrize("settings", FEW)
def test_a_batch_of_searches_equals_transformers_one_by_one(pair, settings):
    assert_equal_searches(pair, pair.stops, **SETTINGS[settings])


@pytest.mark.parametrize("pair", SLOW_T5, indirect=True)
def test_a_search_without_stops_ends_at_its_limit(pair):
    for beams in assert_equal_searches(pair, []):
        assert [len(one.ids) for one in beams] == [LENGTH, LENGTH]
        assert beams[0].score > beams[1].score


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_equals_transformers_with_every_setting(family, tmp_path):
    pair = pair_of(family, tmp_path)
    ended = 0
    for settings in SETTINGS.values():
        for beams in assert_equal_searches(pair, pair.stops, **settings):
            ended += sum(one.finish == "stop" for one in beams)
    assert ended, "searches that never meet a stop would prove little"


@pytest.mark.parametrize("pair", SLOW_T5, indirect=True)
def test_a_prompt_gives_the_same_beams_alone_and_in_a_batch(pair):
    config = BeamConfig(num_beams=3, num_returns=3, max_new_tokens=LENGTH)

    def texts(prompts: list[list[int]], batch_size: int = 16) -> list[list[list[int]]]:
        found = beam_search(pair.ours, prompts, config, eos_id=pair.stops[0], batch_size=batch_size)
        return [[one.ids for one in beams] for beams in found]

    together = texts(PROMPTS)
    assert together == [texts([prompt])[0] for prompt in PROMPTS]
    assert together == texts(PROMPTS, batch_size=2)


def test_one_beam_is_greedy(model):
    greedy = SamplingConfig(max_new_tokens=40, temperature=0.0)
    expected = generate(model, PROMPTS_31, greedy, eos_id=None)
    found = beam_search(model, PROMPTS_31, BeamConfig(num_beams=1, max_new_tokens=40), eos_id=None)
    assert [beams[0].ids for beams in found] == expected


def test_a_full_context_ends_a_row_and_no_other(short_model):
    prompts = [list(range(20)), [1, 2, 3]]
    config = BeamConfig(num_beams=2, max_new_tokens=25)
    long, short = beam_search(short_model, prompts, config, eos_id=None)
    assert (len(long[0].ids), long[0].finish) == (32 + 1 - 20, "length")
    assert len(short[0].ids) == 25
    assert short == beam_search(short_model, prompts[1:], config, eos_id=None)[0]


def test_prompts_of_like_lengths_share_two_compilations(model):
    config = BeamConfig(num_beams=2, max_new_tokens=5)
    before = beam._begin._cache_size(), beam._step._cache_size()
    for length in (1, 2, 17, 20):
        beam_search(model, [list(range(length))] * 2, config, eos_id=0)
    for penalty in (0.3, 2.0):
        again = BeamConfig(num_beams=2, max_new_tokens=4, length_penalty=penalty)
        beam_search(model, PROMPTS_31[:2], again, eos_id=1)
    after = beam._begin._cache_size(), beam._step._cache_size()
    assert (after[0] - before[0], after[1] - before[1]) == (1, 1)


def test_low_precision_decodes_in_it(model):
    config = BeamConfig(num_beams=2, max_new_tokens=4)
    (found,) = beam_search(model, PROMPTS_31[:1], config, eos_id=None, dtype="bfloat16")
    assert len(found[0].ids) == 4


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_beams": 0}, "--num-beams is 0, expected 1 or more"),
        ({"num_returns": 5}, "--num-samples is 5, expected from 1 to --num-beams"),
        ({"max_new_tokens": 0}, "--max-new-tokens is 0"),
        ({"min_new_tokens": -1}, "--min-new-tokens is -1"),
        ({"length_penalty": float("nan")}, "--length-penalty is nan, expected a number"),
        ({"repetition_penalty": 0.0}, "--repetition-penalty is 0.0, expected above 0"),
    ],
)
def test_values_that_mean_nothing_are_refused(values, message):
    with pytest.raises(UsageError, match=f"^{message}"):
        BeamConfig(**values)


@pytest.mark.parametrize(
    ("prompt", "eos_id", "beams", "message"),
    [
        ([], None, 2, "prompt 1 is empty"),
        ([1] * 33, None, 2, "prompt 1 has 33 tokens, and the model's context is 32"),
        ([31], None, 2, "prompt 1 has ids that are none of the model's 31"),
        ([1], 31, 2, "stop id 31 is none of the model's 31"),
        ([1], None, 16, "--num-beams 16 is too many for a vocabulary of 31"),
    ],
)
def test_what_cannot_be_searched_is_refused(short_model, prompt, eos_id, beams, message):
    config = BeamConfig(num_beams=beams)
    with pytest.raises(UsageError, match=f"^{message}"):
        beam_search(short_model, [[1], prompt], config, eos_id=eos_id)


def test_a_least_length_that_the_context_cannot_hold_is_refused(short_model):
    prompts = [[1], list(range(20))]
    config = BeamConfig(num_beams=2, max_new_tokens=14, min_new_tokens=14)
    with pytest.raises(UsageError, match=r"has room for 13 after prompt 1 \(20 tokens\)"):
        beam_search(short_model, prompts, config, eos_id=None)


@pytest.mark.slow
def test_stories_equal_those_of_transformers(shared_data, tmp_path):
    write_directory(shared_data / "weights" / "stories260K" / "stories260K.bin", tmp_path)
    theirs = transformers.LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    pair = Pair(theirs, load_model(tmp_path), [])
    prompts = [[1], [1, 403, 407, 261, 378], [1, 300]]
    for settings in ({"length_penalty": 0.0}, {"repetition_penalty": 1.2}):
        assert_equal_searches(pair, [2], prompts=prompts, max_new_tokens=40, **settings)

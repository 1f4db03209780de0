"""Greedy text of every family equals transformers', in batches of prompts of different lengths."""

import importlib
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jax_lm.generation.decode import write
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.huggingface.directory import load_model
from tests.parity.llama2c_files import write_directory
from tests.parity.parity_cases import Case, random_model

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

FAMILIES = ("gpt2", "gpt_neox", "gptj", "opt", "llama", "t5", "bart")
PROMPTS = [[3, 14, 15, 9, 26, 5], [35, 8], [97, 93, 23, 8], [7]]
NEW = 9
PAD = 1
SETTINGS = {
    "endless": {},
    "plain": {},
    "repetition penalty": {"repetition_penalty": 1.7},
    "least length": {"min_new_tokens": 6},
    "both": {"repetition_penalty": 1.3, "min_new_tokens": 4},
}


def their_texts(theirs: Any, stops: list[int], prompts=PROMPTS, **settings: Any):
    """What transformers writes, with what ended it; padded on the left, as it wants it."""
    apart = theirs.config.is_encoder_decoder
    width = max(map(len, prompts))
    rows = [
        [PAD] * (width - len(p)) + p if not apart else p + [PAD] * (width - len(p)) for p in prompts
    ]
    real = [[int(place < len(p)) for place in range(width)] for p in prompts]
    mask = torch.tensor(real if apart else [row[::-1] for row in real])
    # Its cache fails where T5's stacks are of unequal depth.
    depths = {theirs.config.num_hidden_layers, getattr(theirs.config, "num_decoder_layers", None)}
    settings = {"max_new_tokens": NEW, "use_cache": not apart or len(depths) == 1, **settings}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        found = theirs.generate(
            torch.tensor(rows),
            attention_mask=mask,
            do_sample=False,
            eos_token_id=stops or None,
            pad_token_id=PAD,
            forced_eos_token_id=None,
            **settings,
        )
    texts = []
    for row in found[:, 1 if apart else width :].tolist():
        ends = [place for place, token in enumerate(row) if token in stops]
        texts.append((row[: ends[0]] if ends else row, "stop" if ends else "length"))
    return texts


def assert_equal_texts(theirs: Any, ours: Any, stops: list[int], **settings: Any) -> None:
    settings = {"max_new_tokens": NEW, **settings}
    config = SamplingConfig(temperature=0.0, stop_ids=tuple(stops), **settings)
    written = write(ours, PROMPTS, config, eos_id=None)
    expected = their_texts(theirs, stops, **settings)
    assert [(one.ids, one.finish) for one in written] == expected


def assert_case(case: Case, folder: Path, names: Iterable[str] = SETTINGS) -> None:
    theirs = random_model(case)
    theirs.save_pretrained(folder)
    ours = load_model(folder)
    free = their_texts(theirs, [])
    # Tokens that some rows meet soon, some later or never.
    stops = sorted({free[0][0][2], free[2][0][5]})
    for name in names:
        assert_equal_texts(theirs, ours, [] if name == "endless" else stops, **SETTINGS[name])


def cases_of(family: str) -> dict[str, Case]:
    return importlib.import_module(f"tests.parity.cases_{family}").CASES


@pytest.mark.parametrize(("family", "names"), [("gpt2", ("plain", "both")), ("t5", ("both",))])
def test_greedy_texts_equal_transformers(family, names, tmp_path):
    assert_case(list(cases_of(family).values())[-1], tmp_path, names)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_texts_of_every_family_equal_transformers(family, tmp_path):
    for number, case in enumerate(cases_of(family).values()):
        if not case.auto.startswith("AutoModelForMasked"):
            assert_case(case, tmp_path / str(number))


@pytest.mark.slow
def test_a_trained_model_with_penalties_equals_transformers(shared_data: Path, tmp_path: Path):
    write_directory(shared_data / "weights" / "stories260K" / "stories260K.bin", tmp_path)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    ours, prompts = load_model(tmp_path), [[1, 403, 407], [1]]
    for changed in ({}, {"repetition_penalty": 1.2, "min_new_tokens": 40}):
        settings = {"max_new_tokens": 60, **changed}
        config = SamplingConfig(temperature=0.0, stop_ids=(13, 433), **settings)
        written = write(ours, prompts, config, eos_id=None)
        expected = their_texts(theirs, [13, 433], prompts, **settings)
        assert [(one.ids, one.finish) for one in written] == expected
        assert len(np.unique(written[0].ids)) > 3

import copy
from typing import Any

import jax
import numpy as np
import pytest

from jax_lm.errors import UsageError
from jax_lm.evaluation.scoring import output_scores
from jax_lm.evaluation.scoring.output_scores import OutputScore, score_outputs
from jax_lm.huggingface.directory import load_model
from jax_lm.models.encoder_decoder import EncoderDecoder
from jax_lm.models.roberta import Roberta, RobertaConfig
from jax_lm.sharding.mesh import make_mesh
from tests.parity import cases_bart, cases_gpt2, cases_t5
from tests.parity.parity_cases import VOCABULARY, Case, random_model

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

CASES = {"gpt2": cases_gpt2, "t5": cases_t5, "bart": cases_bart}


FAST_GPT2 = ["gpt2", *(pytest.param(name, marks=pytest.mark.slow) for name in ("t5", "bart"))]


@pytest.fixture(scope="module", params=["gpt2", "t5", pytest.param("bart", marks=pytest.mark.slow)])
def models(request, tmp_path_factory) -> tuple[Any, Any]:
    """Theirs and ours, of the same weights."""
    case: Case = next(iter(CASES[request.param].CASES.values()))
    theirs = random_model(case)
    folder = tmp_path_factory.mktemp(request.param)
    theirs.save_pretrained(folder)
    return theirs, load_model(folder)


def drawn(*lengths: tuple[int, int]) -> list[tuple[list[int], list[int]]]:
    draw = np.random.default_rng(0)
    return [
        tuple(draw.integers(3, VOCABULARY, length).tolist() for length in pair)  # type: ignore[misc]
        for pair in lengths
    ]


PAIRS = drawn((3, 4), (6, 1), (1, 5), (2, 2), (5, 5), (4, 0))


def restated(theirs: Any, source: list[int], target: list[int]) -> OutputScore:
    """By transformers, one token at a time, nothing padded and in float64."""
    nats, greedy = 0.0, True
    for i, token in enumerate(target):
        if theirs.config.is_encoder_decoder:
            begun = torch.tensor([[theirs.config.decoder_start_token_id, *target[:i]]])
            given = {"input_ids": torch.tensor([source]), "decoder_input_ids": begun}
        else:
            given = {"input_ids": torch.tensor([[*source, *target[:i]]])}
        with torch.no_grad():
            logits = theirs(**given).logits[0, -1]
        nats += float(logits.log_softmax(-1)[token])
        greedy &= int(logits.argmax()) == token
    return OutputScore(nats, len(target), greedy)


def test_scores_equal_a_token_by_token_restatement(models):
    theirs, model = models
    exact = copy.deepcopy(theirs).double()
    for pair, score in zip(PAIRS, score_outputs(model, PAIRS), strict=True):
        expected = restated(exact, *pair)
        assert score.log_prob == pytest.approx(expected.log_prob, rel=1e-6, abs=1e-5)
        assert score[1:] == expected[1:]


@pytest.mark.parametrize("models", FAST_GPT2, indirect=True)
def test_the_most_probable_output_is_greedy_and_another_is_not(models):
    _, model = models
    source, target = [7, 8, 9], []
    for _ in range(3):
        every = [(source, [*target, token]) for token in range(VOCABULARY)]
        best = max(
            range(VOCABULARY), key=[s.log_prob for s in score_outputs(model, every)].__getitem__
        )
        target.append(best)
    other = [*target[:2], (target[2] + 1) % VOCABULARY]
    first, second = score_outputs(model, [(source, target), (source, other)])
    assert first.is_greedy and not second.is_greedy
    assert first.log_prob > second.log_prob


def test_numbers_depend_neither_on_the_batch_nor_on_the_mesh(models):
    _, model = models
    many = score_outputs(model, PAIRS * 2, batch_size=32)
    for other in (
        score_outputs(model, PAIRS * 2, batch_size=1),
        score_outputs(model, PAIRS * 2, batch_size=5, mesh=make_mesh()),
        score_outputs(model, PAIRS[::-1])[::-1] * 2,
    ):
        assert [score[1:] for score in other] == [score[1:] for score in many]
        np.testing.assert_allclose(
            [score.log_prob for score in other], [s.log_prob for s in many], rtol=0, atol=1e-5
        )


def test_an_empty_output_is_certain_and_nothing_gives_nothing(models):
    _, model = models
    assert score_outputs(model, PAIRS)[-1] == OutputScore(0.0, 0, True)
    assert score_outputs(model, []) == []


def test_inputs_lose_their_start_where_they_do_not_fit(models):
    _, model = models
    context = model.config.context_length
    source = [3 + i % 200 for i in range(context + 10)]
    kept = context if isinstance(model, EncoderDecoder) else context + 1 - 3
    long, cut = score_outputs(model, [(source, [5, 6, 7]), (source[-kept:], [5, 6, 7])])
    assert long == cut


def test_what_cannot_be_scored_is_refused(models):
    _, model = models
    context = model.config.context_length
    with pytest.raises(UsageError, match=r"^input 1 is empty"):
        score_outputs(model, [([1], [2]), ([], [2])])
    with pytest.raises(UsageError, match=f"^output 0 has {context + 1} tokens, and the model's"):
        score_outputs(model, [([1], [2] * (context + 1))])


def test_a_masked_model_gives_outputs_no_probability():
    config = RobertaConfig(vocab_size=20, num_layers=1, num_heads=1, embed_dim=8, pad_id=1)
    model = jax.eval_shape(lambda: Roberta.init(jax.random.key(0), config))
    with pytest.raises(UsageError, match=r"^roberta is of kind encoder"):
        score_outputs(model, [([1], [2])])


def test_few_shapes_are_compiled(models, monkeypatch):
    _, model = models
    shapes = set()
    scored = output_scores.score_batch

    def spy(model, batch, *, dtype):
        shapes.add((batch.input_ids.shape, batch.targets.shape))
        return scored(model, batch, dtype=dtype)

    monkeypatch.setattr(output_scores, "score_batch", spy)
    score_outputs(model, drawn(*((n, 1 + n % 3) for n in range(1, 9))) * 3, batch_size=4)
    assert len(shapes) == 1

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.errors import UsageError
from jax_lm.generation import slot_arrays
from jax_lm.generation.decode import DecodeOptions, generate, write
from jax_lm.generation.requests import Drawn, Request
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.generation.slots import SlotDecoder
from jax_lm.models.registry import init_model
from jax_lm.models.t5 import T5Config
from tests.contracts.family_cases import CONFIGS

PROMPTS = [[3, 1, 4, 1, 5], [9], [2, 6, 5, 3, 5, 8, 9, 7, 9, 3]]


def drawn_config(**changed: object) -> SamplingConfig:
    return SamplingConfig(**{"max_new_tokens": 12, "temperature": 1.0, **changed})


def texts_of(decoder: SlotDecoder, steps: int | None = None) -> dict[int, list[Drawn]]:
    found: dict[int, list[Drawn]] = {}
    while (steps is None or steps > 0) and (drawn := decoder.step()):
        for one in drawn:
            found.setdefault(one.slot, []).append(one)
        steps = None if steps is None else steps - 1
    return found


def test_texts_that_come_and_go_are_those_written_alone(model):
    """Admitted at different steps, with settings of their own, into slots that others left."""
    asked = [
        Request(PROMPTS[0], drawn_config(top_k=5, seed=1)),
        Request(PROMPTS[1], drawn_config(temperature=0.0, repetition_penalty=1.3)),
        Request(PROMPTS[2], drawn_config(min_p=0.05, top_p=0.9, stop_ids=(1, 2, 3, 4, 5))),
        Request(PROMPTS[0], drawn_config(max_new_tokens=60), copy=1),
    ]
    alone = []
    for request in asked:
        decoder = SlotDecoder(model, num_slots=2, eos_id=None)
        (slot,) = decoder.admit([request])
        alone.append([one.id for one in texts_of(decoder)[slot]])
    decoder = SlotDecoder(model, num_slots=2, eos_id=None)
    together: list[list[int]] = [[] for _ in asked]
    waiting, running = list(enumerate(asked)), {}
    while waiting or running:
        if waiting and decoder.num_free:
            number, request = waiting.pop(0)
            running[decoder.admit([request])[0]] = number
        for one in decoder.step():
            together[running[one.slot]].append(one.id)
            if one.finish is not None:
                del running[one.slot]
    assert together == alone
    assert decoder.num_free == decoder.num_slots == 2
    assert decoder.step() == []


def test_log_probabilities_are_the_models_own(model):
    decoder = SlotDecoder(model, num_slots=3, eos_id=None)
    decoder.admit([Request(PROMPTS[0], drawn_config(temperature=0.3, repetition_penalty=2.0))])
    (found,) = texts_of(decoder).values()
    ids = jnp.asarray([[*PROMPTS[0], *(one.id for one in found)]])
    logits = jax.jit(lambda m: m.unembedding.logits(m(ids)))(model)[0]
    logs = jax.nn.log_softmax(logits)[len(PROMPTS[0]) - 1 : -1]
    expected = [float(row[one.id]) for row, one in zip(logs, found, strict=True)]
    np.testing.assert_allclose([one.log_prob for one in found], expected, atol=1e-4)


def test_no_end_before_the_least_length(model):
    free = generate(model, PROMPTS, drawn_config(max_new_tokens=30), eos_id=None)
    stops = tuple({text[2] for text in free})
    config = drawn_config(max_new_tokens=30, stop_ids=stops)
    short = write(model, PROMPTS, config, eos_id=None)
    assert max(len(one.ids) for one in short) == 2
    config = drawn_config(max_new_tokens=30, min_new_tokens=10, stop_ids=stops)
    for one in write(model, PROMPTS, config, eos_id=None):
        assert len(one.ids) >= 10
        assert not set(one.ids) & set(stops)


def test_a_released_slot_is_free_and_the_others_go_on(model):
    decoder = SlotDecoder(model, num_slots=2, eos_id=None)
    first, second = decoder.admit([Request(p, drawn_config()) for p in PROMPTS[:2]])
    texts_of(decoder, 3)
    decoder.release(first)
    assert decoder.num_free == 1
    assert set(texts_of(decoder)) == {second}


def test_a_full_context_ends_a_text(short_model):
    decoder = SlotDecoder(short_model, num_slots=1, eos_id=None)
    assert decoder.context_length == 32
    decoder.admit([Request([1] * 30, drawn_config(max_new_tokens=9))])
    (found,) = texts_of(decoder).values()
    assert [one.finish for one in found] == [None, None, "length"]


def test_requests_that_cannot_be_served_are_refused(short_model):
    decoder = SlotDecoder(short_model, num_slots=1, eos_id=None)
    config = drawn_config()
    for prompt, message in [
        ([], "a prompt is empty"),
        ([1] * 33, "a prompt of 33 tokens is longer than the 32 that the model takes"),
        ([1, 31], "token id 31 is not one of the model's 31"),
        ([-1], "token id -1 is not one of the model's 31"),
    ]:
        with pytest.raises(UsageError, match=message):
            decoder.admit([Request(prompt, config)])
    with pytest.raises(UsageError, match="2 requests for 1 free slots"):
        decoder.admit([Request([1], config)] * 2)
    assert decoder.num_free == 1
    with pytest.raises(UsageError, match="the number of slots is 0"):
        SlotDecoder(short_model, num_slots=0, eos_id=None)
    with pytest.raises(UsageError, match="the longest text is 33 tokens, expected from 1 to the"):
        SlotDecoder(short_model, num_slots=1, eos_id=None, max_length=33)


@pytest.mark.slow
def test_few_programs_are_compiled(model):
    slot_arrays.step.clear_cache()
    slot_arrays.read.clear_cache()
    slot_arrays.enter.clear_cache()
    decoder = SlotDecoder(model, num_slots=4, eos_id=0)
    for count in (1, 3, 4):
        for length in (1, 30, 60):
            config = drawn_config(max_new_tokens=3, temperature=0.5 * count, top_k=length)
            decoder.admit([Request([1 + length % 30] * length, config) for _ in range(count)])
            texts_of(decoder)
    for count in (0, 7, 30):
        config = drawn_config(max_new_tokens=3, stop_ids=tuple(range(count)))
        decoder.admit([Request([1, 2], config)])
        texts_of(decoder)
    # Prompts and texts of 32 or 64 tokens; one of them, or up to four; however many stop ids.
    assert slot_arrays.step._cache_size() == 2 * 2
    assert slot_arrays.read._cache_size() == 2 * 2
    # What is read goes into texts at least as long, among at least as many.
    assert slot_arrays.enter._cache_size() <= 3 * 3


def test_slots_without_texts_are_not_computed(model):
    decoder = SlotDecoder(model, num_slots=9, eos_id=None)
    alone = drawn_config(max_new_tokens=5)

    def rows() -> int:
        assert decoder._slots is not None
        return decoder._slots.rows.last.shape[0]

    (first,) = decoder.admit([Request(PROMPTS[0], alone)])
    before = texts_of(decoder, 2)[first]
    assert rows() == 1
    decoder.admit([Request(PROMPTS[1], drawn_config(stop_ids=(1,))), Request(PROMPTS[2], alone)])
    assert rows() == 4
    after = texts_of(decoder)[first]
    decoder.admit([Request([1, 2], alone)] * 5)
    assert rows() == 9
    texts_of(decoder)
    decoder.admit([Request(PROMPTS[0], alone)])
    assert rows() == 1
    again = [one.id for one in texts_of(decoder)[0]]
    assert [one.id for one in before + after] == again


def test_long_prompts_are_read_a_few_at_a_time(model, monkeypatch):
    """The memory that reading takes does not grow with the number of slots."""
    monkeypatch.setattr("jax_lm.generation.slots.TOKENS_AT_ONCE", 64)
    config = drawn_config(max_new_tokens=6)
    prompts = [[1 + i] * length for i, length in enumerate((3, 40, 2, 60, 5, 9))]
    decoder = SlotDecoder(model, num_slots=6, eos_id=None)
    assert [decoder.prompts_at_once(length) for length in (8, 40)] == [1, 1]
    shapes = []
    monkeypatch.setattr(
        "jax_lm.generation.slots.read",
        lambda model, new: shapes.append(new.input_ids.shape) or slot_arrays.read(model, new),
    )
    slots = decoder.admit([Request(prompt, config) for prompt in prompts])
    found = {slot: [one.id for one in text] for slot, text in texts_of(decoder).items()}
    assert slots == list(range(6))
    assert max(rows * width for rows, width in shapes) <= 64
    for slot, prompt in zip(slots, prompts, strict=True):
        assert [found[slot]] == generate(model, [prompt], config, eos_id=None)
    monkeypatch.setattr("jax_lm.generation.slots.TOKENS_AT_ONCE", 128)
    assert [decoder.prompts_at_once(length) for length in (8, 40)] == [4, 1]


def test_texts_go_on_where_another_prompt_cannot_be_read(model, monkeypatch):
    decoder = SlotDecoder(model, num_slots=2, eos_id=None)
    (slot,) = decoder.admit([Request(PROMPTS[0], drawn_config())])
    before = texts_of(decoder, 3)[slot]

    def fail(*given: object) -> None:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr("jax_lm.generation.slots.read", fail)
        with pytest.raises(RuntimeError, match="out of memory"):
            decoder.admit([Request([1] * 50, drawn_config())])
    assert decoder.intact
    assert decoder.num_free == 1
    after = texts_of(decoder)[slot]
    decoder.admit([Request(PROMPTS[0], drawn_config())])
    assert [one.id for one in before + after] == [one.id for one in texts_of(decoder)[slot]]
    decoder.admit([Request(PROMPTS[0], drawn_config())])
    with monkeypatch.context() as patch:
        patch.setattr("jax_lm.generation.slots.enter", fail)
        with pytest.raises(RuntimeError, match="out of memory"):
            decoder.admit([Request([1], drawn_config())])
    assert not decoder.intact
    decoder.release(slot)
    assert decoder.intact


@pytest.mark.slow
def test_the_batch_size_and_the_precision(model):
    config = drawn_config(max_new_tokens=8)
    prompts = [*PROMPTS, *PROMPTS]
    whole = generate(model, prompts, config, eos_id=None)
    for size in (1, 4):
        options = DecodeOptions(batch_size=size)
        assert generate(model, prompts, config, eos_id=None, options=options) == whole
    halved = DecodeOptions(dtype="bfloat16")
    assert len(generate(model, PROMPTS, config, eos_id=None, options=halved)[0]) == 8
    with pytest.raises(UsageError, match="--batch-size is 0"):
        DecodeOptions(batch_size=0)


def test_a_cache_is_in_the_dtype_of_the_computation(short_model):
    decoder = SlotDecoder(short_model, num_slots=1, eos_id=None, dtype="bfloat16")
    decoder.admit([Request([1, 2], drawn_config())])
    decoder.step()
    layers = decoder._slots.cache.layers
    assert {leaf.dtype for leaf in jax.tree.leaves(layers)} == {jnp.dtype("bfloat16")}


@pytest.mark.slow
def test_an_output_may_be_longer_than_t5s_rows_and_not_than_barts_positions():
    said: list[str] = []
    t5 = init_model(jax.random.key(0), CONFIGS["t5"].with_tokens(_ids()))
    prompt = [5, 6, 7] * 6  # longer than the context, 12
    config = drawn_config(max_new_tokens=20)
    assert len(generate(t5, [prompt], config, eos_id=None, notice=said.append)[0]) == 20
    assert said == []
    bart = init_model(jax.random.key(0), CONFIGS["bart"].with_tokens(_ids()))
    (one,) = write(bart, [prompt], config, eos_id=None, notice=said.append)
    assert (len(one.ids), one.finish) == (12, "length")
    expected = "a prompt of 18 tokens is longer than the context of 12: only its last 12 are read"
    assert said == [expected]


@pytest.mark.slow
def test_an_encoder_decoder_must_know_what_outputs_begin_with():
    config = T5Config(vocab_size=30, num_layers=1, num_heads=1, embed_dim=8, mlp_dim=8, head_dim=8)
    decoder = SlotDecoder(init_model(jax.random.key(0), config), num_slots=1, eos_id=None)
    with pytest.raises(UsageError, match="no decoder_start_id, with which outputs begin"):
        decoder.admit([Request([1], drawn_config())])


def _ids():
    from jax_lm.models.base import TokenIds

    return TokenIds(40, 0, None, 1)

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.errors import UsageError
from jax_lm.generation import slot_arrays
from jax_lm.generation.decode import generate
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.generation.slots import bucket
from jax_lm.models.gpt2 import GPT2

PROMPTS = [[3, 1, 4, 1, 5], [9], [2, 6, 5, 3, 5, 8, 9, 7, 9, 3]]


@jax.jit
def logits_at(model: GPT2, ids: jax.Array, last: jax.Array) -> jax.Array:
    return model.unembedding.logits(model(ids)[0, last])


def uncached_greedy(model: GPT2, prompt: list[int], count: int) -> list[int]:
    """The reference: the whole sequence again for every token, in one padded shape."""
    context = model.config.context_length
    ids = np.zeros((1, context), np.int32)
    ids[0, : len(prompt)] = prompt
    for length in range(len(prompt), len(prompt) + count):
        logits = logits_at(model, jnp.asarray(ids), jnp.int32(length - 1))
        ids[0, length] = int(logits.argmax())
    return ids[0, len(prompt) : len(prompt) + count].tolist()


def greedy(count: int) -> SamplingConfig:
    return SamplingConfig(max_new_tokens=count, temperature=0.0)


def test_cached_greedy_text_equals_uncached_for_200_tokens(model):
    texts = generate(model, PROMPTS, greedy(200), eos_id=None)
    for prompt, text in zip(PROMPTS, texts, strict=True):
        assert text == uncached_greedy(model, prompt, 200)
        assert len(set(text)) > 5, "a constant text would prove little"


def test_a_prompt_gives_the_same_text_alone_and_in_a_batch(model):
    config = SamplingConfig(max_new_tokens=30, temperature=1.0, seed=7)
    together = generate(model, PROMPTS, config, eos_id=None)
    alone = [generate(model, [prompt], config, eos_id=None)[0] for prompt in PROMPTS]
    assert together == alone
    assert generate(model, PROMPTS[::-1], config, eos_id=None) == together[::-1]


def test_copies_of_a_prompt_and_other_seeds_give_other_texts(model):
    def texts(seed: int) -> list[list[int]]:
        config = SamplingConfig(max_new_tokens=30, temperature=1.0, seed=seed)
        return generate(model, [PROMPTS[0]] * 3, config, eos_id=None)

    drawn = [*texts(0), *texts(1)]
    assert len({tuple(text) for text in drawn}) == 6
    assert texts(0) == drawn[:3]


def test_lengths_and_settings_within_a_bucket_share_two_compilations(model):
    slot_arrays.enter.clear_cache()
    slot_arrays.step.clear_cache()
    for length, changed in [(1, {"top_k": 5}), (2, {"min_p": 0.1}), (17, {"top_p": 0.9}), (23, {})]:
        config = SamplingConfig(max_new_tokens=9, temperature=0.1 * length, **changed)
        generate(model, [list(range(length))], config, eos_id=0)
    assert (slot_arrays.enter._cache_size(), slot_arrays.step._cache_size()) == (1, 1)


def test_text_ends_before_the_end_token_and_other_rows_go_on(model):
    free = generate(model, PROMPTS, greedy(60), eos_id=None)
    eos = free[0][10]
    ended = generate(model, PROMPTS, greedy(60), eos_id=eos)
    for whole, cut in zip(free, ended, strict=True):
        assert cut == (whole[: whole.index(eos)] if eos in whole else whole)
    assert len({len(text) for text in ended}) > 1


def test_a_full_context_goes_on_from_its_last_half(short_model):
    said: list[str] = []
    prompts = [[1, 2, 3], list(range(20))]
    texts = generate(short_model, prompts, greedy(80), eos_id=None, notice=said.append)
    assert said == ["the context of 32 tokens is full: the text goes on from its last 16"]
    for prompt, text in zip(prompts, texts, strict=True):
        assert text == sliding_greedy(short_model, prompt, 80)


def sliding_greedy(model: GPT2, prompt: list[int], count: int) -> list[int]:
    text, start = list(prompt), 0
    for _ in range(count):
        if len(text) - start > model.config.context_length:
            start = len(text) - model.config.context_length // 2
        text += uncached_greedy_one(model, text[start:])
    return text[len(prompt) :]


def uncached_greedy_one(model: GPT2, ids: list[int]) -> list[int]:
    padded = np.zeros((1, model.config.context_length), np.int32)
    padded[0, : len(ids)] = ids
    return [int(logits_at(model, jnp.asarray(padded), jnp.int32(len(ids) - 1)).argmax())]


def test_rows_that_end_stay_ended_when_others_slide(short_model):
    prompts = [[1, 2, 3], [4]]
    free = generate(short_model, prompts, greedy(80), eos_id=None)
    only_first = next(token for token in free[0] if token not in free[1])
    ended = generate(short_model, prompts, greedy(80), eos_id=only_first)
    assert ended == [free[0][: free[0].index(only_first)], free[1]]


def test_a_prompt_longer_than_the_context_keeps_its_last_part(short_model):
    said: list[str] = []
    prompt = [i % 31 for i in range(50)]
    (text,) = generate(short_model, [prompt], greedy(5), eos_id=None, notice=said.append)
    assert said == [
        "a prompt of 50 tokens is longer than the context of 32: only its last 28 are read"
    ]
    assert text == sliding_greedy(short_model, prompt[-28:], 5)


def test_nothing_to_continue(model):
    assert generate(model, [], greedy(3), eos_id=None) == []
    with pytest.raises(UsageError, match="a prompt is empty"):
        generate(model, [[1], []], greedy(3), eos_id=None)


def test_buckets_are_powers_of_two_up_to_the_context():
    assert [bucket(n, 100) for n in (1, 32, 33, 64, 65, 1000)] == [32, 32, 64, 64, 100, 100]
    assert bucket(3, 20) == 20

"""Mode rolling: golden windows, and every token of every document scored exactly once."""

from functools import cache

import numpy as np
import pytest

from jax_lm.preprocessing.cutting.rolling import ONE_TOKEN
from jax_lm.preprocessing.tokenized import tokenize
from jax_lm.tokenizers.pretrained import load_tokenizer
from tests.preprocessing.cutting_fakes import BOS, PAD, cut, special_ids, whole_rows
from tests.preprocessing.preprocessing_fakes import EOS, document

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def restated(tokens, prefix, width, context):
    """(inputs, targets) of each window, written token by token from the method's description."""
    found = []
    done = 0
    while done < len(tokens):
        if done == 0:
            stop = min(width, len(tokens))
            inputs = [prefix, *tokens[: stop - 1]]
        else:
            stop = min(done + width - context + 1, len(tokens))
            inputs = tokens[stop - 1 - width : stop - 1]
        found.append((inputs, tokens[done:stop]))
        done = stop
    return found


def inputs_and_targets(features):
    pairs = []
    for ids, scored in whole_rows(features):
        pairs.append((ids[:-1], [i for i, on in zip(ids, scored, strict=True) if on]))
    return pairs


@pytest.mark.parametrize(
    ("count", "width", "context", "expected"),
    [
        (4, 4, 1, [("-abc", "abcd")]),
        (3, 4, 2, [("-ab", "abc")]),
        (8, 4, 1, [("-abc", "abcd"), ("defg", "efgh")]),
        (10, 4, 1, [("-abc", "abcd"), ("defg", "efgh"), ("fghi", "ij")]),
        (10, 4, 2, [("-abc", "abcd"), ("cdef", "efg"), ("fghi", "hij")]),
        (6, 4, 4, [("-abc", "abcd"), ("abcd", "e"), ("bcde", "f")]),
        (12, 4, 3, [("-abc", "abcd"), ("bcde", "ef"), ("defg", "gh"), ("fghi", "ij"),
                    ("hijk", "kl")]),
    ],
)  # fmt: skip
def test_golden_windows(count, width, context, expected):
    features = cut("rolling", document(LETTERS[:count]), length=width, context_length=context)
    spelled = [
        ("".join("-" if i == BOS else chr(i) for i in inputs), "".join(map(chr, targets)))
        for inputs, targets in inputs_and_targets(features)
    ]
    assert spelled == expected
    assert features.kind == "labels"


@pytest.mark.parametrize("width", [1, 2, 5, 8])
@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_windows_equal_the_restatement(width, share):
    context = max(1, round(width * share))
    texts = [LETTERS[:size] * 2 for size in range(0, 14)]
    features = cut("rolling", *map(document, texts), length=width, context_length=context)
    expected = []
    for text in texts:
        expected += restated(list(text.encode()), BOS, width, context)
    assert inputs_and_targets(features) == expected
    scored = "".join(chr(t) for _, targets in inputs_and_targets(features) for t in targets)
    assert scored == "".join(texts)
    assert features.num_bytes.sum() == len(scored) == features.targets
    assert features.dropped == {"documents without any token": 1}


@pytest.mark.parametrize(
    ("special", "first"),
    [
        (special_ids(bos=None), EOS),
        (special_ids(bos=None, eos=None, separator=BOS), BOS),
    ],
)
def test_the_first_token_is_predicted_from_what_there_is(special, first):
    features = cut("rolling", document("abc"), length=5, special=special)
    assert features.rows.input_ids.tolist() == [[first, 97, 98, 99, PAD]]
    assert features.rows.labels.tolist() == [[97, 98, 99, -100, -100]]
    assert features.rows.lengths.tolist() == [4]


def test_without_any_such_token_the_first_is_context():
    special = special_ids(bos=None, eos=None, separator=None)
    features = cut("rolling", document("abcdef"), document("x"), length=3, special=special)
    assert features.rows.input_ids.tolist() == [[97, 98, 99], [99, 100, 101]]
    assert features.rows.labels.tolist() == [[98, 99, 100], [-100, 101, 102]]
    assert features.dropped == {ONE_TOKEN: 1}
    assert features.cut_off == 1


def test_context_is_not_scored_and_weights_are_kept():
    features = cut("rolling", document(("ab", 0.0), ("cdef", 0.5)), length=4, context_length=3)
    assert features.rows.labels.tolist() == [
        [-100, -100, 99, 100], [-100, -100, 101, 102]
    ]  # fmt: skip
    assert features.rows.loss_weights.tolist() == [[0, 0, 0.5, 0.5], [0, 0, 0.5, 0.5]]
    assert features.num_bytes.tolist() == [2, 2]


TOKENIZERS = {
    "byte-level": "tokenizers/gpt2/gpt2_tokenizer.json",
    "sentencepiece": "tokenizers/llama2/tokenizer.model",
}
CORPORA = ("norwegian_ud/no_bokmaal-ud-test.txt", "korean_chatbot/ChatbotData.csv")


@cache
def real_tokenizer(place):
    return load_tokenizer(place)


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("corpus", CORPORA)
def test_bytes_of_real_text_add_up(shared_data, name, corpus):
    tokenizer = real_tokenizer(shared_data / TOKENIZERS[name])
    text = (shared_data / "corpora" / corpus).read_text(encoding="utf-8")
    texts = [text[start : start + 3_000] for start in range(0, 60_000, 3_000)]
    features = cut(
        "rolling", *map(document, texts), length=64, context_length=32, tokenizer=tokenizer,
        special=special_ids(bos=1, eos=2),
    )  # fmt: skip
    tokenized = tokenize(list(map(document, texts)), tokenizer)
    assert features.num_bytes.sum() == sum(len(text.encode()) for text in texts)
    labels = features.rows.labels
    assert np.array_equal(labels[labels != -100], tokenized.ids)

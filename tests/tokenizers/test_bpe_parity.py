"""Merges learned here against a published reference, and against the plain trainer."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe
from jax_lm.tokenizers.settings import DSGPT2_TOKENS
from tests.tokenizers.tokenizer_texts import corpora

EOS = "<|endoftext|>"
Pair = tuple[str, str]


def merges_of(description: str) -> list[Pair]:
    return [(left, right) for left, right in json.loads(description)["model"]["merges"]]


def cut_words(text: str) -> Counter[tuple[str, ...]]:
    pieces = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(text)
    return Counter(tuple(piece) for piece, _ in pieces)


def merged(word: tuple[str, ...], pair: Pair) -> tuple[str, ...]:
    out: list[str] = []
    for symbol in word:
        if out and (out[-1], symbol) == pair:
            out[-1] = "".join(pair)
            out.append("")  # a symbol just made is not merged again in this pass
        else:
            out.append(symbol)
    return tuple(symbol for symbol in out if symbol)


def pair_counts(words: Counter[tuple[str, ...]]) -> Counter[Pair]:
    counts: Counter[Pair] = Counter()
    for word, count in words.items():
        for pair in pairwise(word):
            counts[pair] += count
    return counts


def test_differences_from_the_reference_are_ties(shared_data: Path) -> None:
    folder = shared_data / "tokenizers/cs336_assignment1-basics"
    text = (folder / "corpus.en").read_bytes().decode()
    lines = (folder / "train-bpe-reference-merges.txt").read_text(encoding="utf-8").splitlines()
    reference = [tuple(line.split(" ")) for line in lines]
    vocab_size = 256 + 1 + len(reference)
    ours = merges_of(train_byte_level_bpe([text], vocab_size=vocab_size).description)
    assert len(ours) == len(reference) == 243
    assert len(set(ours) & set(reference)) >= 239
    # Both lists merge a most frequent pair at every step, so they part only where counts tie.
    for merges in (ours, reference):
        words = cut_words(text)
        counts = pair_counts(words)
        for pair in merges:
            assert counts[pair] == max(counts.values()), pair
            _apply(words, counts, pair)


def _apply(words: Counter[tuple[str, ...]], counts: Counter[Pair], pair: Pair) -> None:
    for word in [word for word in words if pair in pairwise(word)]:
        before = Counter({word: words.pop(word)})
        after = Counter({merged(word, pair): before[word]})
        words.update(after)
        counts.subtract(pair_counts(before))
        counts.update(pair_counts(after))


def test_merge_for_merge_the_plain_trainer(shared_data: Path) -> None:
    texts = corpora(shared_data)[::20]
    ours = train_byte_level_bpe(
        iter(texts), vocab_size=2000, min_frequency=2, special_tokens=DSGPT2_TOKENS
    )
    plain = tokenizers.Tokenizer(models.BPE())
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        min_frequency=2,
        special_tokens=list(DSGPT2_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    plain.train_from_iterator(iter(texts), trainer)
    assert merges_of(ours.description) == merges_of(plain.to_str())
    assert plain.get_vocab() == tokenizers.Tokenizer.from_str(ours.description).get_vocab()
    assert ours.vocab_size == 2000

"""Large corpora made of small ones: passages repeated with many of their words changed."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

CHANGED = 0.05
"""Share of words that become others, or words that never were."""
PASSAGE_CHARACTERS = (200, 6000)


def write_corpus(sources: Path, output: Path, megabytes: int, seed: int = 0) -> int:
    """Write ``.jsonl`` documents of about ``megabytes`` MB in all; returns how many.

    Args:
        sources: a directory whose ``.txt`` files are cut into passages.
        output: the file to write.
        megabytes: UTF-8 text wanted.
        seed: of the passages and the changes.
    """
    texts = [path.read_text(encoding="utf-8") for path in sorted(sources.rglob("*.txt"))]
    chance = random.Random(seed)
    words = sorted({word for text in texts for word in text.split()})
    written = documents = 0
    with output.open("w", encoding="utf-8") as file:
        for passage in _passages(texts, words, chance):
            file.write(json.dumps({"text": passage}, ensure_ascii=False) + "\n")
            written += len(passage.encode("utf-8"))
            documents += 1
            if written >= megabytes * 1_000_000:
                return documents
    return documents


def _passages(texts: list[str], words: list[str], chance: random.Random) -> Iterator[str]:
    weights = [len(text) for text in texts]
    while True:
        text = chance.choices(texts, weights)[0]
        start = chance.randrange(len(text))
        pieces = text[start : start + chance.randint(*PASSAGE_CHARACTERS)].split(" ")
        for _ in range(int(len(pieces) * CHANGED)):
            place = chance.randrange(len(pieces))
            word = chance.choice(words)
            pieces[place] = word if chance.random() < 0.8 else f"{word}{chance.randrange(10**6)}"
        yield " ".join(pieces)

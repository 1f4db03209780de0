"""Where sentences end: offsets that add up to the text, on real text too."""

import sys
import time
from itertools import pairwise

import pytest

from jax_lm.errors import JaxLMError
from jax_lm.preprocessing import sentences
from jax_lm.preprocessing.sentences import sentence_ends

pytest.importorskip("sentencex")


def parts(text):
    data = text.encode()
    ends = [0, *sentence_ends(text)]
    return [data[a:b].decode() for a, b in pairwise(ends)]


def test_sentences_keep_the_space_after_them():
    text = 'Dr. Smith went home. He said "Hi there." Blåbær!  안녕하세요. 你好。我是。\n\n'
    text += "A title\n\nEnd"
    assert parts(text) == [
        "Dr. Smith went home. ", 'He said "Hi there." ', "Blåbær!  ", "안녕하세요. ", "你好。",
        "我是。\n\n", "A title\n\n", "End",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", " ", "\n\n \n", "\n\nOne.\r\n\r\nTwo", "no end", "\x00.\x00"])
def test_odd_texts_are_covered(text):
    found = sentence_ends(text)
    assert list(found) == sorted(set(found))
    assert not found or found[-1] == len(text.encode())
    assert bool(found) == bool(text.strip())


@pytest.mark.parametrize(
    "corpus",
    ["english100/corpus/Doyle_Hound_1902.txt", "wikitext2/test.txt",
     "norwegian_ud/no_bokmaal-ud-test.txt", "korean_chatbot/ChatbotData.csv"],
)  # fmt: skip
def test_real_text_is_covered_and_quick(shared_data, corpus):
    text = (shared_data / "corpora" / corpus).read_text(encoding="utf-8")
    started = time.perf_counter()
    found = parts(text)
    assert time.perf_counter() - started < 5
    assert "".join(found) == text
    assert max(map(len, found)) < 6_000 and len(found) > len(text) / 1_000
    assert all(part.strip() for part in found)


def test_a_sentence_across_a_cut_is_found_whole(monkeypatch):
    text = " ".join(f"Sentence number {place} is here." for place in range(30))
    whole = parts(text)
    monkeypatch.setattr(sentences, "LONGEST", 70)
    assert parts(text) == whole and len(whole) == 30


def test_a_missing_splitter_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencex", None)
    with pytest.raises(JaxLMError, match=r"--sentences needs sentencex.*jax-lm\[sentences\]"):
        sentence_ends("a")

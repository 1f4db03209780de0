import random

import pytest

from jax_lm.generation.sampling import SamplingConfig
from jax_lm.generation.streaming import LONGEST_WAIT, TextStream
from jax_lm.generation.text import continue_texts
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.settings import TrainingSettings
from jax_lm.tokenizers.training import train_tokenizer
from tests.generation.conftest import random_model

LEARNED = ["Blåbærsyltetøy er godt, og det er to be or not to be: def main(): pass\n"] * 4
TEXTS = [
    "Blåbærsyltetøy på brødskiva, æøå ÆØÅ!",
    "안녕하세요, 뷁 없다 값이 오십니까",
    "👩‍👩‍👧 🇳🇴 ok 😀😃 e\u0301 ﬁ½①",
    "  two  spaces,\ta tab\n\nand lines ",
    "▁not a space▁",
]
KINDS = ("byte-level-bpe", "sentencepiece-bpe", "sentencepiece-unigram")


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request) -> Tokenizer:
    """With few merges: most characters of the texts take several tokens."""
    if request.param == "byte-level-bpe":
        return train_tokenizer(LEARNED, TrainingSettings(kind=request.param, vocab_size=290))
    settings = TrainingSettings(kind=request.param, vocab_size=285, byte_fallback=True)
    return train_tokenizer(LEARNED, settings)


def ids_of(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode_batch([text]).ids.tolist()


def pieces(stream: TextStream, ids: list[int]) -> list[str]:
    found = [stream.push(token) for token in ids]
    return [*found, stream.finish()]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("prompt", ["", "Det", "to ", "값", "😀 "])
def test_pieces_are_whole_characters_and_make_the_text(tokenizer, text, prompt):
    whole = ids_of(tokenizer, prompt + text)
    for cut in range(0, len(whole), 3):
        before = tokenizer.decode(whole[:cut])
        if before.endswith("\ufffd"):
            continue  # a prompt that ends within a character
        stream = TextStream(tokenizer, whole[:cut])
        found = pieces(stream, whole[cut:])
        assert not any("\ufffd" in piece for piece in found)
        assert before + "".join(found) == tokenizer.decode(whole)
        assert stream.text == "".join(found)
        assert not stream.stopped


def test_text_comes_as_soon_as_its_characters_are_whole(tokenizer):
    ids = ids_of(tokenizer, "def main 값 pass")
    stream = TextStream(tokenizer, ids[:1])
    given = tokenizer.decode(ids[:1])
    for end in range(2, len(ids) + 1):
        given += stream.push(ids[end - 1])
        so_far = tokenizer.decode(ids[:end])
        if not so_far.endswith("\ufffd"):
            assert given == so_far


def test_bytes_that_never_make_a_character_are_not_waited_for(tokenizer):
    bad = [i for i in range(tokenizer.vocab_size) if tokenizer.decode([i]) == "\ufffd"]
    assert bad
    stream = TextStream(tokenizer, [])
    wrong = "".join(stream.push(bad[-1]) for _ in range(2 * LONGEST_WAIT))
    assert set(wrong) == {"\ufffd"}
    rest = "".join(pieces(stream, ids_of(tokenizer, "x and more")))
    assert rest.endswith("and more")


@pytest.mark.parametrize("seed", range(4))
def test_any_tokens_stream_to_some_text_without_failing(tokenizer, seed):
    draw = random.Random(seed)
    ids = [draw.randrange(tokenizer.vocab_size) for _ in range(120)]
    stream = TextStream(tokenizer, ids[:5])
    assert "".join(pieces(stream, ids[5:])) == stream.text


@pytest.mark.parametrize(
    ("stop", "kept"),
    [
        (("not",), "to be or "),
        (("zzz", " or no"), "to be"),
        (("be: ", "e"), "to b"),
        (("to be or not to be:",), ""),
        (("not so", "main(x"), None),
        (("pass!",), None),
    ],
)
def test_stop_strings_are_cut_off_exactly(tokenizer, stop, kept):
    text = "to be or not to be: def main(): pass"
    start = ids_of(tokenizer, "x ")
    whole = ids_of(tokenizer, "x " + text)
    stream = TextStream(tokenizer, whole[: len(start) - 1], stop)
    before = tokenizer.decode(whole[: len(start) - 1])
    found = pieces(stream, whole[len(start) - 1 :])
    expected = ("x " + text)[len(before) :]
    if kept is not None:
        expected = ("x " + kept)[len(before) :]
    assert "".join(found) == stream.text == expected
    assert stream.stopped == (kept is not None)
    if kept is not None:
        assert stream.push(whole[-1]) == stream.finish() == ""


def test_a_stop_string_is_looked_for_in_new_text_alone(tokenizer):
    ids = ids_of(tokenizer, "main main main")
    cut = next(i for i in range(len(ids)) if tokenizer.decode(ids[:i]).strip() == "main")
    stream = TextStream(tokenizer, ids[:cut], ["mainx", "main main main"])
    assert "".join(pieces(stream, ids[cut:])) == " main main"


def test_continued_texts_are_heard_as_they_are_returned(tokenizer):
    model = random_model(5, 32, 1, vocab_size=tokenizer.vocab_size)
    heard = {0: "", 1: ""}

    def hear(number: int, piece: str) -> None:
        heard[number] += piece

    config = SamplingConfig(max_new_tokens=25, temperature=1.0)
    free = continue_texts(model, tokenizer, ["to be", "to be"], config, hear=hear)
    assert [one.text for one in free] == list(heard.values())
    assert [one.finish_reason for one in free] == ["length", "length"]
    stop = free[0].text[len(free[0].text) // 2]
    config = SamplingConfig(max_new_tokens=25, temperature=1.0, stop=(stop,))
    first, _ = continue_texts(model, tokenizer, ["to be", "to be"], config)
    assert first.text == free[0].text[: free[0].text.index(stop)]
    assert first.finish_reason == "stop"
    assert first.num_tokens <= 25


def test_tokens_that_spell_nothing_cost_the_same_however_many(tokenizer):
    decoded = 0

    class Counted:
        def decode(self, ids: list[int]) -> str:
            nonlocal decoded
            decoded += len(ids)
            return tokenizer.decode([i for i in ids if i >= 0])

    stream = TextStream(Counted(), [])
    assert {stream.push(-1) for _ in range(2000)} == {""}
    assert decoded < 2000 * 2 * LONGEST_WAIT
    assert "".join(pieces(stream, ids_of(tokenizer, "god 값"))) == "god 값"

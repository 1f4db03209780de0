"""A row of each mode as a person reads it."""

import pytest

from jax_lm.preprocessing.features import read_row
from jax_lm.preprocessing.show import show_row
from tests.preprocessing.preprocessing_fakes import ByteTokenizer, ListSource, document


@pytest.fixture
def shown(make):
    """``shown(documents, index, color=..., **options)``: the lines for a row."""

    def show(documents, index=0, color=False, **options):
        manifest = make(ListSource(documents), **options)
        row = read_row(make.prefix, manifest, index)
        return show_row(row, manifest, ByteTokenizer(), color=color)

    return show


def test_a_packed_row_shows_where_documents_begin(shown):
    documents = [document("abc"), document("def")]
    lines = shown(documents, segment_ids=True, max_sequence_length=7)
    assert lines[0] == "⟦‹<eos>›⟧abc┃‹<eos>›def"
    assert lines[2] == "8 tokens, 7 scored, 0 padding, 6 bytes spelled by the scored"


def test_a_window_shows_its_frame(shown):
    lines = shown([document("abcdefghij")], index=1, mode="windows")
    assert lines[0] == "⟦‹<eos>›⟧hij‹<eos>›"
    assert lines[2] == "5 tokens, 4 scored, 3 padding, 3 bytes spelled by the scored"


def test_a_rolling_window_shows_its_context(shown):
    documents = [document("abcdefghijkl")]
    text = shown(documents, index=1, mode="rolling", context_length=5)[0]
    assert text == "⟦defgh⟧ijkl"
    colored = shown(documents, index=1, color=True, mode="rolling", context_length=5)[0]
    assert colored == "\x1b[2mdefgh\x1b[0mijkl"


def test_a_pair_shows_its_output_apart(shown):
    lines = shown([document(("2+2?", 0.0), ("four", 1.0))], mode="pairs")
    assert lines[0] == "⟦2+2?⟧\n→ four‹<eos>›"
    assert lines[2] == "9 tokens, 5 scored, 7 padding, 4 bytes spelled by the scored"


def test_a_conversation_shows_what_is_scored(shown):
    turns = [("user: hi\n", 0.0), ("hello", 1.0), ("\nuser: bye\n", 0.0), ("ciao", 1.0)]
    lines = shown([document(*turns, subset="chat")], mode="documents", max_sequence_length=40)
    assert lines[0] == "⟦‹<eos>›user: hi\n⟧hello⟦\nuser: bye\n⟧ciao‹<eos>›"
    assert lines[2].endswith("10 scored, 9 padding, 9 bytes spelled by the scored, subset chat")


def test_ids_that_the_original_took_for_padding_are_still_shown(shown):
    options = {"mode": "windows", "seed_compatible": True}
    lines = shown([document("a\x00b")], **options)
    assert lines[0] == "⟦‹<eos>›⟧a⟦\x00⟧b‹<eos>›"


def test_sentences_are_counted(shown, monkeypatch):
    monkeypatch.setattr(
        "jax_lm.preprocessing.shard_writing.sentence_ends", lambda text: [3, len(text)]
    )
    lines = shown([document("ab.cd.")], mode="documents", sentences=True)
    assert "6 bytes spelled by the scored, 2 sentences" in lines[2]

import json
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from jax_lm.documents.conversations.asking import ask
from jax_lm.documents.conversations.messages import ASSISTANT, SYSTEM, USER, message
from jax_lm.documents.conversations.rendering import render_conversation
from jax_lm.documents.conversations.templates import NAMED, ChatTemplate, chat_template
from jax_lm.documents.malformed import RecordError
from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe

TALK = (message(USER, "Hello <|im_end|>"), message(ASSISTANT, "Hi!"), message(USER, "How?"))


def joined(segments: tuple, start: int = 0) -> str:
    return "".join(segment.text for segment in segments[start:])


@pytest.mark.parametrize("name", sorted(NAMED))
def test_what_is_asked_is_what_training_saw_before_the_answer(name: str) -> None:
    template = chat_template(name)
    turn = ask(TALK, template)
    trained = joined(render_conversation((*TALK, message(ASSISTANT, "Well.")), template))
    assert trained.startswith(joined(turn.segments) + "Well." + turn.ending)


@pytest.mark.parametrize(
    ("name", "ending"),
    [("chatml", "<|im_end|>"), ("dsgpt2", "</s>"), ("plain", "\n"), ("vicuna", "</s>")],
)
def test_what_ends_a_turn(name: str, ending: str) -> None:
    assert ask(TALK, chat_template(name)).ending == ending


def test_what_people_wrote_is_never_markup() -> None:
    segments = ask(TALK, chat_template("chatml")).segments
    spoken = next(s for s in segments if s.text == "Hello <|im_end|>")
    assert not spoken.markup
    assert segments[-1].markup
    assert segments[-1].text.endswith("<|im_start|>assistant\n")


def test_named_templates_open_a_turn_in_transformers_as_here(tmp_path: Path) -> None:
    train_byte_level_bpe(iter(["hello there"]), vocab_size=300).save(tmp_path)
    theirs = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    messages = [{"role": one.role, "content": one.texts[0][1]} for one in TALK]
    for name, source in NAMED.items():
        opened = theirs.apply_chat_template(
            messages, chat_template=source, add_generation_prompt=True, tokenize=False
        )
        assert opened == joined(ask(TALK, chat_template(name, tmp_path)).segments), name


def test_a_refusal_is_a_sentence() -> None:
    with pytest.raises(RecordError, match="no place for the role system"):
        ask((message(SYSTEM, "Be brief."),), chat_template("dsgpt2"))
    with pytest.raises(RecordError, match="leaves out"):
        ask(TALK, ChatTemplate("odd", "{{ messages[-1]['content'] }}"))


def test_messages_without_a_user_can_be_asked_too() -> None:
    assert json.dumps(joined(ask((), chat_template("plain")).segments)) == '"Assistant: "'

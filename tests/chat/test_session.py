import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from jax_lm.chat.conversation import Conversation, load_conversation
from jax_lm.chat.session import ChatSession
from jax_lm.chat.terminal import Terminal
from jax_lm.documents.base import Cursor
from jax_lm.documents.conversations.messages import Message
from jax_lm.documents.open import open_source
from jax_lm.errors import JaxLMError
from jax_lm.generation.sampling import SamplingConfig


class Echo:
    """Says how many messages it was given, and the last one, in pieces; or fails."""

    name = "echo"

    def __init__(self, forgets: int = 0) -> None:
        self.num_forgotten = forgets
        self.seeds: list[int] = []
        self.is_cut = False

    def interrupt(self) -> None:
        raise AssertionError("nobody pressed Ctrl-C")

    def answer(self, messages: Sequence[Message], sampling: SamplingConfig) -> Iterator[str]:
        self.seeds.append(sampling.seed)
        said = dict(messages[-1].texts)["content"]
        if said == "break":
            raise JaxLMError("the model is out of order")
        self.is_cut = said == "long"
        yield from (" ", f"{len(messages)}:", f" {said}\n")


def talk(*typed: str, speaker: Echo | None = None, system: str = "") -> tuple[str, Conversation]:
    output = io.StringIO()
    conversation = Conversation(system)
    terminal = Terminal(io.StringIO("".join(line + "\n" for line in typed)), output)
    ChatSession(speaker or Echo(), terminal, SamplingConfig(), conversation).run()
    return output.getvalue(), conversation


def contents(conversation: Conversation) -> list[tuple[str, str]]:
    return [(one.role, dict(one.texts)["content"]) for one in conversation.messages]


def test_questions_are_answered_in_turn() -> None:
    printed, conversation = talk("hello", "", "again", system="be brief")
    assert "you> hello\nmodel> 2: hello\n" in printed
    assert "you> again\nmodel> 4: again\n" in printed
    assert contents(conversation) == [
        ("system", "be brief"),
        ("user", "hello"),
        ("assistant", "2: hello"),
        ("user", "again"),
        ("assistant", "4: again"),
    ]


def test_undo_reset_and_system() -> None:
    printed, conversation = talk(
        "one",
        "two",
        "/undo",
        "/system you are polite",
        "three",
        "/system",
        "/undo",
        "/undo",
        "/undo",
    )
    assert "taken back: two" in printed
    assert "model> 4: three" in printed
    assert "system: you are polite" in printed
    assert "nothing to take back" in printed
    assert contents(conversation) == [("system", "you are polite")]
    printed, conversation = talk("one", "/reset", "two", "/exit", "never read", system="s")
    assert "forgotten\nyou> two\nmodel> 2: two\n" in printed
    assert "never read" not in printed


def test_retry_asks_again_with_another_seed() -> None:
    speaker = Echo()
    printed, conversation = talk("/retry", "one", "/retry", speaker=speaker)
    assert "no question to answer again" in printed
    assert speaker.seeds == [0, 1]
    assert contents(conversation) == [("user", "one"), ("assistant", "1: one")]


def test_a_text_of_several_lines() -> None:
    printed, conversation = talk("one\\", "two", '"""', "a", "", "b", '"""', "/exit")
    assert [text for role, text in contents(conversation) if role == "user"] == [
        "one\ntwo",
        "a\n\nb",
    ]
    assert "... two" in printed
    assert contents(talk('"""in one line"""')[1])[0] == ("user", "in one line")
    assert contents(talk("unfinished\\")[1])[0] == ("user", "unfinished")


def test_a_failed_answer_takes_the_question_back() -> None:
    printed, conversation = talk("break", "hello")
    assert "the model is out of order" in printed
    assert contents(conversation) == [("user", "hello"), ("assistant", "1: hello")]


def test_forgotten_messages_are_told() -> None:
    printed, _ = talk("hello", speaker=Echo(forgets=3))
    assert "(the first 3 messages no longer fit the context)" in printed


def test_an_answer_that_is_cut_is_told() -> None:
    assert "model> 1: long\n\n(cut: as long as it may be; /set max" in talk("long")[0]
    assert "(cut" not in talk("short")[0]


def test_what_would_command_the_terminal_is_shown() -> None:
    printed, conversation = talk("a\x1b[2Jb")
    assert "1: a\\x1b[2Jb\n" in printed
    assert contents(conversation)[1] == ("assistant", "1: a\x1b[2Jb")


def test_settings_are_shown_changed_and_checked() -> None:
    printed, _ = talk("/set", "/set temperature 0.5", "/set top_k x", "/set temprature 1")
    assert "temperature 0.8" in printed
    assert "temperature 0.5" in printed
    assert "/set top-k expects a number, not x" in printed
    assert "no setting temprature; did you mean 'temperature'?" in printed
    assert "--temperature is -1.0, expected 0 or more" in talk("/set temperature -1")[0]


def test_a_saved_conversation_is_a_document_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    printed, conversation = talk("hello", f"/save {path}", system="be brief")
    assert f"saved 3 messages to {path}" in printed
    assert json.loads(path.read_text())["messages"][1] == {"role": "user", "content": "hello"}
    ((_, document),) = open_source(str(path)).read(Cursor(0, 0))
    assert "User: hello\nAssistant: 2: hello\n" in document.text
    assert contents(load_conversation(path)) == contents(conversation)
    printed, resumed = talk(f"/load {path}", "and now?")
    assert contents(resumed)[-1] == ("assistant", "4: and now?")
    path.write_text(path.read_text() * 3)
    assert "; 2 more conversations in it are left alone" in talk(f"/load {path}")[0]


def test_nothing_is_saved_over_other_files(tmp_path: Path) -> None:
    there = tmp_path / "there.jsonl"
    there.write_text("[1]\n")
    printed, _ = talk(f"/save {tmp_path}/no/x.jsonl", f"/save {there}", "/load nowhere")
    assert "x.jsonl: no such directory" in printed
    assert "there.jsonl: is there already, and is kept; name another FILE" in printed
    assert "nowhere: No such file or directory" in printed
    assert there.read_text() == "[1]\n"


def test_a_conversation_is_saved_again_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    printed, _ = talk("one", f"/save {path}", "two", f"/save {path}")
    assert f"saved 4 messages to {path}" in printed


def test_piped_text_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(JaxLMError, match="a line of the input is not UTF-8 text"):
        talk("one", "\udcff")


def test_commands_that_cannot_be_obeyed_are_told(tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text("[1]\n")
    printed, _ = talk("/sav x", "/save", "/load", f"/load {bad}", "/load nowhere", "/help")
    assert "no command /sav; did you mean 'save'? (/help lists them)" in printed
    assert "/save FILE: name a file" in printed
    assert "line 1 is not a conversation" in printed
    assert "nowhere" in printed
    assert "Ctrl-C stops the answer" in printed


@pytest.mark.parametrize("text", ["", "{", '{"messages": []}', '{"messages": [{"role": "x"}]}'])
def test_what_is_no_conversation_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(JaxLMError, match=r"bad\.jsonl: line 1 is not a conversation"):
        load_conversation(path)

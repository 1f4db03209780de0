import json
import pickle
import sys
from pathlib import Path

import pytest

from jax_lm.documents.conversations import sandbox
from jax_lm.documents.conversations.messages import ASSISTANT, USER, message
from jax_lm.documents.conversations.rendering import render_conversation
from jax_lm.documents.conversations.templates import (
    NAMED,
    ChatTemplate,
    chat_template,
    has_template,
)
from jax_lm.errors import JaxLMError, UsageError


def rendered(template: ChatTemplate) -> str:
    return "".join(s.text for s in render_conversation([message(USER, "hi")], template))


def test_the_tokenizer_s_own_template_by_file_string_and_list(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"bos_token": {"content": "<B>"}, "eos_token": "<E>", "chat_template": "old"})
    )
    assert chat_template(None, tmp_path).source == "old"
    assert chat_template(str(tmp_path)).special_tokens == (
        ("bos_token", "<B>"),
        ("eos_token", "<E>"),
    )
    named = [{"name": "rag", "template": "r"}, {"name": "default", "template": "d"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    assert chat_template(None, tmp_path).source == "d"
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0].content }}")
    assert chat_template(None, tmp_path).source == "{{ messages[0].content }}"
    by_file = chat_template(str(tmp_path / "chat_template.jinja"), tmp_path)
    assert by_file.source == "{{ messages[0].content }}"
    assert has_template(tmp_path)
    assert not has_template(tmp_path / "elsewhere")
    assert chat_template(None, tmp_path / "elsewhere").source == NAMED["plain"]
    assert chat_template(None).name == "plain"


def test_bare_turns_keep_their_weights_and_nothing_is_added() -> None:
    turns = [message(USER, "hi"), message(ASSISTANT, "you")]
    segments = render_conversation(turns, chat_template("bare"))
    assert [(s.text, s.weight) for s in segments if s.text] == [("hi", 0.0), ("you", 1.0)]


def test_vicuna_ends_turns_with_the_tokenizer_s_own_token(tmp_path: Path) -> None:
    (tmp_path / "special_tokens_map.json").write_text('{"eos_token": "<|endoftext|>"}')
    turns = [message(USER, "q"), message(ASSISTANT, "a")]
    segments = render_conversation(turns, chat_template("vicuna", tmp_path))
    assert [s.text for s in segments if s.weight] == ["a", "<|endoftext|>"]


def test_a_template_travels_to_workers_and_says_all_it_depends_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "dated.jinja"
    path.write_text(
        "{{ strftime_now('%d %b %Y') }}|{{ {'a': '<é>'} | tojson }}|{{ messages[0].content }}"
    )
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    template = chat_template(str(path))
    copy = pickle.loads(pickle.dumps(template))
    assert rendered(copy) == '02 Jan 1970|{"a": "<é>"}|hi'
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    assert repr(chat_template(str(path))) != repr(template)
    (tmp_path / "moved.jinja").write_text(path.read_text())
    assert repr(chat_template(str(tmp_path / "moved.jinja"))) == repr(chat_template(str(path)))
    assert repr(chat_template("chatml")) == repr(
        pickle.loads(pickle.dumps(chat_template("chatml")))
    )


def test_mistakes_about_templates(tmp_path: Path) -> None:
    (tmp_path / "bad.jinja").write_text("{{ a }}\n{% for %}")
    (tmp_path / "latin.jinja").write_bytes(b"\xe5")
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/tokenizer_config.json").write_text("{")
    mistakes = {
        "chatlm": (UsageError, "--chat-template chatlm: expected chatml, dsgpt2, vicuna, plain"),
        f"{tmp_path}/bad.jinja": (JaxLMError, f"{tmp_path}/bad.jinja:2: not a jinja template"),
        f"{tmp_path}/latin.jinja": (JaxLMError, "cannot be read: it is not UTF-8"),
        f"{tmp_path}/empty": (JaxLMError, "no chat template in it"),
        f"{tmp_path}/broken": (JaxLMError, "tokenizer_config.json: not a JSON file"),
    }
    for written, (kind, reason) in mistakes.items():
        with pytest.raises(kind) as caught:
            chat_template(written)
        assert reason in str(caught.value)
        assert "\n" not in str(caught.value)


def test_without_jinja_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox._environment.cache_clear()
    sandbox._compiled.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(JaxLMError, match=r"a chat template needs jinja2: pip install"):
        chat_template("chatml")
    monkeypatch.undo()
    assert rendered(chat_template("chatml")).startswith("<|im_start|>user")

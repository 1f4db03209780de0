import json
from pathlib import Path

import pytest

from jax_lm.documents.conversations.templates import chat_template
from jax_lm.documents.records import (
    RecordError,
    record_metadata,
    record_segments,
    record_subset,
)
from jax_lm.types import Segment

ASKED = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
SHARED = [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]
DSGPT2 = "<usr><s>q</s><sys><s>a</s>"


def text(record: object, field: str | None = None, template: str = "dsgpt2") -> str:
    segments = record_segments(record, field, chat_template(template))
    return "".join(segment.text for segment in segments)


@pytest.mark.parametrize(
    "record",
    [
        {"messages": ASKED},
        {"conversations": SHARED},
        {"conversation": SHARED},
        {"q": "q", "a": "a", "idx": 3},
        {"Q": "q", "A": "a", "label": "0"},
        {"question": "q", "answer": "a"},
        {"instruction": "q", "input": "", "output": "a"},
        {"instruction": "q", "output": "a"},
        {"instruction": "q", "instances": [{"input": "", "output": "a"}]},
        {"messages": [{"role": "User", "content": [{"type": "text", "text": "q"}]}, ASKED[1]]},
        {"messages": [{"role": "prompter", "content": "q"}, {"role": "bing", "content": "a"}]},
        ASKED,
    ],
)
def test_every_shape_of_a_conversation_is_the_same(record: object) -> None:
    segments = record_segments(record, None, chat_template("dsgpt2"))
    assert segments == (
        Segment("<usr><s>", 0.0, markup=True),
        Segment("q", 0.0),
        Segment("</s><sys><s>", 0.0, markup=True),
        Segment("a", 1.0),
        Segment("</s>", 1.0, markup=True),
    )


@pytest.mark.parametrize(
    ("record", "segments"),
    [
        ({"prompt": "q", "completion": "a"}, (Segment("q", 0.0), Segment("a", 1.0))),
        ({"messages": ASKED, "text": "t", "in_text": "q", "out_text": "a"}, (Segment("t"),)),
        ({"in_text": "q", "out_text": "a", "messages": ASKED}, (Segment("q", 0.0), Segment("a"))),
        ((("q", 0),), None),
        ({"text": (("q", 0),)}, None),
    ],
)
def test_pairs_and_which_shape_counts(record: object, segments: tuple | None) -> None:
    if segments is None:
        with pytest.raises(RecordError):
            record_segments(record, None)
    else:
        assert record_segments(record, None) == segments


def test_instructions_with_input_and_several_instances() -> None:
    one = {"instruction": "Add.", "input": "1 2", "output": "3"}
    assert text(one) == "<usr><s>Add.\n\n1 2</s><sys><s>3</s>"
    instances = [{"input": "1 2", "output": "3"}, {"input": "4 5", "output": "9"}]
    several = {"instruction": "Add.", "instances": instances}
    assert text(several) == (
        "<usr><s>Add.\n\n1 2</s><sys><s>3</s><usr><s>Add.\n\n4 5</s><sys><s>9</s>"
    )


def test_messages_in_a_field_of_another_name_and_a_record_s_own_system_message() -> None:
    assert text({"chat": {"turns": ASKED}}, "chat.turns") == DSGPT2
    record = {"system": "Be kind.", "conversations": SHARED}
    assert text(record, template="plain") == "System: Be kind.\nUser: q\nAssistant: a\n"
    assert text({**record, "q": "q", "a": "a"}, template="plain").startswith("System: ")
    given = {"system": "no", "messages": [{"role": "system", "content": "yes"}, *ASKED]}
    assert text(given, template="plain").startswith("System: yes\nUser")
    qa = {"system": "Be kind.", "q": "q", "a": "a"}
    assert text(qa, template="plain").startswith("System: Be kind.\n")


def test_metadata_is_what_is_no_text() -> None:
    assert record_metadata({"q": "q", "a": "a", "idx": 3}, None) == {"idx": 3}
    assert record_metadata({"text": "t", "messages": [1]}, None) == {"messages": [1]}
    assert record_metadata({"x": "t", "text": 1}, "x") == {"text": 1}
    assert record_metadata([["a", 1]], None) == {}
    assert record_subset({"meta": {"pile_set_name": "Books"}}, None) == "Books"
    assert record_subset([], None) == ""


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"body": "a"}, "or `messages`, or `conversations`"),
        ({"q": "q"}, "found 'q' (name the field with ?text=FIELD"),
        ({"messages": "hi"}, "field 'messages' should be a list of messages, found text"),
        ({"messages": []}, "is an empty conversation; expected at least one message"),
        ({"messages": ["hi"]}, "message 1 of field 'messages' should be an object, found text"),
        ({"messages": [{"role": "user"}]}, "has no 'content' or 'value'; found 'role'"),
        ({"messages": [{"content": "a"}]}, "has no 'role' or 'from'; found 'content'"),
        (
            {"messages": [{"role": "usr", "content": "a"}]},
            "message 1 of field 'messages' has role 'usr', expected system, user, assistant or "
            "tool; did you mean 'user'?",
        ),
        ({"messages": [{"role": 3, "content": "a"}]}, "has role a number"),
        ({"messages": [{"role": "user", "content": None}]}, "should be text, found null"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "has a part that is not text: 'image_url'",
        ),
        (
            {"messages": [{"role": "assistant", "content": "", "tool_calls": [1]}]},
            "has 'tool_calls', which is not rendered",
        ),
        ({"messages": [{**ASKED[1], "weight": "x"}]}, "has as weight text, expected a number"),
        ({"messages": [{**ASKED[1], "weight": -1}]}, "has weight -1; expected a finite number"),
        ({"q": "q", "a": 3}, "field 'a' should be text, found a number"),
        ({"instruction": "q", "input": 3, "output": "a"}, "field 'input' should be text"),
        ({"instruction": "q", "instances": []}, "should be a list of tasks, found a list"),
        ({"instruction": "q", "instances": [{}]}, "instance 0 should be an object with 'output'"),
        (
            {"instruction": "q", "instances": [{"output": None}]},
            "field 'output' of instance 0 should be text, found null",
        ),
    ],
)
def test_what_is_wrong_is_one_sentence(record: object, reason: str) -> None:
    with pytest.raises(RecordError) as caught:
        record_segments(record, None)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_real_records_of_other_shapes(shared_data: Path) -> None:
    corpora = shared_data / "corpora"
    dialogues = json.loads(
        (corpora / "conversation/fastchat_dummy_conversation.json").read_text(encoding="utf-8")
    )
    vicuna = text(dialogues[0], template="vicuna")
    assert "USER: Who are you? ASSISTANT: I am Vicuna" in vicuna
    assert vicuna.endswith("USER: Have a nice day! ASSISTANT: You too!</s>")
    lines = (corpora / "instruct/user_oriented_instructions.jsonl").read_text("utf-8").splitlines()
    for record in map(json.loads, lines):
        segments = record_segments(record, None)
        (instance,) = record["instances"]
        scored = "".join(s.text for s in segments if s.weight and not s.markup)
        assert scored == instance["output"]


def test_records_that_are_no_json_values_are_named_too() -> None:
    for record, shown in ((None, "null"), (b"x", "bytes"), ("a", "text")):
        with pytest.raises(RecordError, match=f"expected a JSON object or list, found {shown}"):
            record_segments(record, None)
    with pytest.raises(RecordError, match=r"no field 'x\.y'; found 'x'; did you mean"):
        record_segments({"x": "text"}, "x.y")
    with pytest.raises(RecordError, match="should name a subset, found a truth value"):
        record_subset({"s": True}, "s")
    assert record_subset({"s": 7}, "s") == "7"
    assert record_subset({"s": None}, "s") == ""


def test_weights_beside_texts() -> None:
    assert record_segments({"text": [["q", 0], ["a", 0.5]]}, None) == (
        Segment("q", 0.0),
        Segment("a", 0.5),
    )
    for pair, reason in (
        (["a"], "item 0 of the record should be a \\[text, weight\\] pair, found a list"),
        (["a", -1], "has weight -1"),
    ):
        with pytest.raises(RecordError, match=reason):
            record_segments([pair], None)

import json
from pathlib import Path

import pytest

from jax_lm.documents.base import BadRecord, Cursor
from jax_lm.documents.files import json_text
from jax_lm.documents.open import open_source
from jax_lm.documents.reading import ReadingOptions
from jax_lm.errors import JaxLMError

START = Cursor(0, 0)
MANY = [{"text": f"blåbær {i} " * (i % 9), "n": i} for i in range(50)]


def read(path: Path, options: str = "", **settings) -> list[str]:
    source = open_source(f"{path}{options}", ReadingOptions(**settings))
    return [document.text for _, document in source.read(START)]


@pytest.fixture(params=[3, 64, 1 << 20], autouse=True)
def window(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window smaller than any value, one in between, and the real one."""
    monkeypatch.setattr(json_text, "WINDOW", request.param)


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ([{"text": "a"}, {"text": "b"}], ["a", "b"]),
        ({"data": [{"text": "a"}], "version": [1, 2]}, ["a"]),
        ({"version": {"a": [{}]}, "data": [{"text": "a"}]}, ["a"]),
        ({"text": "one record", "links": [{"to": "b"}]}, ["one record"]),
        ({"text": [["a", 0], ["b", 1]]}, ["ab"]),
        ({"messages": [{"role": "user", "content": "hi"}]}, ["User: hi\n"]),
        ([], []),
        ([[["a", 0], ["b", 1]], {"text": "c"}], ["ab", "c"]),
        ([{"text": 'mark"s ]}, [{ \\" \u2028'}], ['mark"s ]}, [{ \\" \u2028']),
    ],
)
def test_shapes(tmp_path: Path, content: object, texts: list[str]) -> None:
    for name, options in (("a.json", {}), ("b.json", {"indent": 3, "ensure_ascii": False})):
        (tmp_path / name).write_text(json.dumps(content, **options), encoding="utf-8")
        assert read(tmp_path / name) == texts
    (tmp_path / "a.json").write_text("\ufeff \n" + json.dumps(content) + "\n", encoding="utf-8")
    assert read(tmp_path / "a.json") == texts


def test_records_one_after_another_and_numbers_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("\n".join(map(json.dumps, MANY)))
    assert read(path) == [record["text"] for record in MANY]
    path.write_text('[{"text": "a"}] 12')
    with pytest.raises(BadRecord, match="found a number"):
        read(path)


def test_a_list_is_chosen_where_there_are_several(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"train": MANY, "eval": [{"text": "held out"}], "n": 1}))
    assert read(path, "?records=train") == [record["text"] for record in MANY]
    assert read(path, "?records=eval") == ["held out"]
    with pytest.raises(JaxLMError, match="a second list of records, 'eval'; say which to read"):
        read(path)
    with pytest.raises(JaxLMError, match="under 'dev' in the object; found 'train', 'eval', 'n'"):
        read(path, "?records=dev")


def test_any_cursor_restarts_in_every_shape(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for content in (MANY, {"a": 1, "data": MANY, "b": ["x"]}):
        path.write_text(json.dumps(content, indent=1))
        whole = list(open_source(str(path)).read(START))
        assert [document.text for _, document in whole] == [record["text"] for record in MANY]
        for index in range(0, len(whole), 7):
            assert list(open_source(str(path)).read(whole[index][0])) == whole[index + 1 :]


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        (b'[{"text": "a"},\n{"text": }]', 2, "broken JSON, expecting value at character 10"),
        (b'[{"text": "a"},\n{"text": "b"}', 2, "the file ends where ',' or ']' was expected"),
        (b'[{"text": "a"}\n{"text": "b"}]', 2, "expected ',' or ']', found '{'"),
        (b'[{"text": "a"},\n"b', 2, "unterminated string"),
        (b'[{"text": "a"},\n{"text": "\xe5"}]', 2, "byte 0xe5 at offset"),
        (b'[{"text": "a"},\n{"no": 1}]', 2, "found 'no'"),
        (b'[{"text": "a"},\n{"text": "\\ud800"}]', 2, "half a surrogate pair"),
        (b"nope", 1, "broken JSON"),
    ],
)
def test_what_is_broken_is_named(tmp_path: Path, content: bytes, line: int, reason: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(BadRecord) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert reason in str(caught.value)


def test_a_bad_record_is_skipped_but_broken_json_never(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('[{"text": "a"}, {"no": 1}, 5, {"text": "b"}]')
    assert read(path, on_bad_record="skip") == ["a", "b"]
    path.write_text('[{"text": "a"}, {no: 1}, {"text": "b"}]')
    with pytest.raises(BadRecord, match="broken JSON"):
        read(path, on_bad_record="skip")


def test_a_share_gpt_file(shared_data: Path) -> None:
    path = shared_data / "corpora/conversation/fastchat_dummy_conversation.json"
    texts = read(path)
    assert len(texts) == len(json.loads(path.read_text()))
    assert texts[0].startswith("User: Who are you?\nAssistant: I am Vicuna")


def write_tagged(path: Path, count: int) -> list[str]:
    """Records one after another, each with a list of objects before its text."""
    texts = [f"doc {i} " + "x" * (i * 37 % 900) for i in range(count)]
    records = [
        {"tags": [{"text": "INNER TAG"}], "id": i, "text": text} for i, text in enumerate(texts)
    ]
    path.write_text("\n".join(map(json.dumps, records)))
    return texts


@pytest.mark.parametrize("target_bytes", [1, 5000, 10**9])
def test_a_record_with_a_list_is_whole_wherever_the_window_ends(
    tmp_path: Path, target_bytes: int
) -> None:
    texts = write_tagged(tmp_path / "a.json", 60)
    source = open_source(str(tmp_path / "a.json"))
    ranges = source.ranges(target_bytes)
    joined = [d.text for cut in ranges for _, d in source.read(cut.start, cut.stop)]
    assert joined == texts
    apart = [d.text for cut in ranges for _, d in open_source(source).read(cut.start, cut.stop)]
    assert apart == texts


def test_a_record_without_text_is_no_box_among_records(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    tagged = [{"text": "a"}, {"tags": [{"text": "INNER TAG"}]}, {"text": "b"}]
    path.write_text("\n".join(map(json.dumps, tagged)))
    with pytest.raises(BadRecord, match=r"a\.json:2: .*found 'tags'"):
        read(path)
    source = open_source(str(path), ReadingOptions(on_bad_record="skip"))
    joined = [d.text for cut in source.ranges(1) for _, d in source.read(cut.start, cut.stop)]
    assert joined == ["a", "b"]
    assert len(source.rejects) == 1


def test_a_text_behind_a_long_list_is_never_thrown_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_text, "LONG_VALUE", 1000)
    monkeypatch.setattr(json_text, "WINDOW", min(json_text.WINDOW, 512))
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"data": MANY, "text": "of its own"}))
    for on_bad_record in ("stop", "skip"):
        with pytest.raises(BadRecord, match=r"a text of its own, 'text'; read .* \?records=KEY"):
            read(path, on_bad_record=on_bad_record)
    assert read(path, "?records=data") == [record["text"] for record in MANY]
    path.write_text(json.dumps({"text": "of its own", "data": MANY}))
    assert read(path) == ["of its own"]
    path.write_text(json.dumps({"data": MANY, "title": "no text"}))
    assert read(path) == [record["text"] for record in MANY]

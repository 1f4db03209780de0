import gzip
from pathlib import Path

import numpy as np
import pytest

from jax_lm.documents.base import Cursor
from jax_lm.documents.files import token_ids
from jax_lm.documents.open import open_source
from jax_lm.errors import JaxLMError

START = Cursor(0, 0)
END = 50256


def write(path: Path, ids: list[int], dtype: str = "uint16") -> Path:
    np.array(ids, dtype).tofile(path)
    return path


def read(path: Path, options: str = "") -> list[list[int]]:
    return [d.segments[0].ids.tolist() for _, d in open_source(f"{path}{options}").read(START)]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_ids, "BLOCK_TOKENS", 8)


def test_documents_end_at_separators_which_are_taken_away(tmp_path: Path) -> None:
    path = write(tmp_path / "a.bin", [END, 1, 2, END, END, 3, END, 4])
    assert read(path) == [[1, 2], [3], [4]]
    assert read(path, "?separator=3") == [[END, 1, 2, END, END], [END, 4]]
    wide = write(tmp_path / "b.bin", [1, 100_000, 128_001, 5], "uint32")
    assert read(wide, "?dtype=uint32&separator=128001") == [[1, 100_000], [5]]
    documents = [d for _, d in open_source(str(path)).read(START)]
    assert [d.id for d in documents] == ["a.bin@1", "a.bin@5", "a.bin@7"]
    assert documents[0].segments[0].text == ""


def test_without_separators_pieces_are_bounded(tmp_path: Path, small_blocks) -> None:
    ids = list(range(20))
    assert read(write(tmp_path / "a.bin", ids)) == [ids[:8], ids[8:16], ids[16:]]
    ids[9] = END
    assert read(write(tmp_path / "a.bin", ids)) == [ids[:8], ids[8:9], ids[10:20]]


def test_ranges_of_any_size_are_the_whole(tmp_path: Path, small_blocks) -> None:
    draw = np.random.default_rng(0)
    for share in (0.0, 0.02, 0.3):
        ids = np.where(draw.random(500) < share, END, draw.integers(0, 99, 500))
        source = open_source(str(write(tmp_path / "a.bin", ids.tolist())))
        whole = [(c, d.segments[0].ids.tolist()) for c, d in source.read(START)]
        assert sum(len(ids) for _, ids in whole) == np.count_nonzero(ids != END)
        for target in (1, 7, 50, 333, 10_000):
            ranges = source.ranges(target)
            joined = [pair for cut in ranges for pair in source.read(cut.start, cut.stop)]
            assert [(c, d.segments[0].ids.tolist()) for c, d in joined] == whole
            assert not any(cut.follows for cut in ranges)
        for index, (cursor, _) in enumerate(whole):
            rest = [d.segments[0].ids.tolist() for _, d in source.read(cursor)]
            assert rest == [ids for _, ids in whole[index + 1 :]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "a.bin: 3 bytes are no whole number of uint16 ids"),
        ("?dtype=int8", "?dtype=int8 is not known; expected uint16 or uint32"),
        ("?separator=x", "?separator=x is no token id, such as 50256"),
    ],
)
def test_what_cannot_be_ids(tmp_path: Path, options: str, message: str) -> None:
    (tmp_path / "a.bin").write_bytes(b"abc")
    with pytest.raises(JaxLMError) as caught:
        read(tmp_path / "a.bin", options)
    assert message in str(caught.value)


def test_a_packed_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.bin.gz").write_bytes(gzip.compress(b"ab"))
    with pytest.raises(JaxLMError, match=r"a \.bin\.gz file cannot be read"):
        read(tmp_path / "a.bin.gz")

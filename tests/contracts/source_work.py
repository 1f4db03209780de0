"""Counts what reading a source costs, where its bytes and rows come in."""

import io
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from jax_lm.documents.files import table_formats
from jax_lm.documents.files.compression import _Unpacking
from jax_lm.documents.files.stored import READ_AHEAD, LocalFile
from jax_lm.documents.huggingface.rows import StoredRows
from jax_lm.documents.huggingface.streaming import StreamedRows


def counted_work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What is read of files, unpacked, decoded and streamed from now on, by kind."""
    done: Counter[str] = Counter()

    class CountedFile(io.FileIO):
        def readinto(self, target: Any) -> int | None:
            count = super().readinto(target)
            done["bytes read"] += count or 0
            return count

        def readall(self) -> bytes:
            data = super().readall()
            done["bytes read"] += len(data)
            return data

    def counted(owner: Any, name: str, kind: str, before: Callable[..., int]) -> None:
        original = getattr(owner, name)

        def generate(*given: Any) -> Iterator[Any]:
            done[kind] += before(*given)
            for item in original(*given):
                done[kind] += 1
                yield item

        monkeypatch.setattr(owner, name, generate)

    def unpack(self: Any, data: bytes, original: Any = _Unpacking._unpack) -> None:
        original(self, data)
        done["bytes unpacked"] += len(self._ready)

    def decoded(batches: Any, *given: Any, original: Any = table_formats._from_row) -> Any:
        def each() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                done["rows decoded"] += batch.num_rows
                yield batch

        return original(each(), *given)

    monkeypatch.setattr(
        LocalFile, "open", lambda self: io.BufferedReader(CountedFile(self.path), READ_AHEAD)
    )
    monkeypatch.setattr(_Unpacking, "_unpack", unpack)
    monkeypatch.setattr(table_formats, "_from_row", decoded)
    counted(StoredRows, "_values", "rows of a data set", lambda source, table: 0)
    counted(StreamedRows, "_rows", "rows streamed", lambda source, first: first)
    return done

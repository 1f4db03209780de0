"""Reads what wandb writes offline: records of protocol buffers in LevelDB's log format."""

import json
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BLOCK = 32 * 1024
HEADER = struct.Struct("<IHB")
"""Checksum, length, and whether the record is whole (1), or its first, middle or last part."""
WHOLE, FIRST, LAST = 1, 2, 4


def history(run_dir: Path) -> list[dict[str, Any]]:
    """The rows of all offline runs of a directory, in the order they were begun."""
    return [row for records in _runs(run_dir) for row in _rows(records)]


def configuration(run_dir: Path) -> dict[str, Any]:
    """What the newest offline run was given as configuration."""
    for record in reversed(_runs(run_dir)[-1]):
        if record.WhichOneof("record_type") == "run":
            return {item.key: json.loads(item.value_json) for item in record.run.config.update}
    raise AssertionError("no run in the file")


def run_ids(run_dir: Path) -> set[str]:
    """Under which names the runs go."""
    return {
        record.run.run_id
        for records in _runs(run_dir)
        for record in records
        if record.WhichOneof("record_type") == "run"
    }


def _runs(run_dir: Path) -> list[list[Any]]:
    from wandb.proto import wandb_internal_pb2

    runs = []
    for path in sorted(run_dir.glob("wandb/offline-run-*/run-*.wandb")):
        records: list[Any] = []
        deadline = time.monotonic() + 20
        # Their process may still be writing when finish() has returned.
        while not (records and records[-1].WhichOneof("record_type") == "exit"):
            assert time.monotonic() < deadline, f"{path} is not complete"
            parts = _parts(path.read_bytes())
            records = [wandb_internal_pb2.Record.FromString(part) for part in parts]
            time.sleep(0.02)
        runs.append(records)
    return runs


def _rows(records: list[Any]) -> Iterator[dict[str, Any]]:
    for record in records:
        if record.WhichOneof("record_type") == "history":
            items = record.history.item
            yield {
                item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items
            }


def _parts(data: bytes) -> Iterator[bytes]:
    if data[:4] != b":W&B":
        return
    place, whole = 7, b""
    while place + HEADER.size <= len(data):
        left = BLOCK - place % BLOCK
        if left < HEADER.size:
            place += left
            continue
        _, length, kind = HEADER.unpack_from(data, place)
        if length == kind == 0:
            break
        place += HEADER.size
        whole += data[place : place + length]
        place += length
        if kind in (WHOLE, LAST):
            yield whole
            whole = b""

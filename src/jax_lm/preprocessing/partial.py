"""A feature set while it is being made: the folder ``_NAME.partial`` beside its prefix.

Each shard leaves a Parquet file and a small JSON result there. The folder is bound to a plan
(source, tokenizer, settings), so an interrupted run continues only what it really began.
"""

import dataclasses
import json
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jax_lm.errors import JaxLMError
from jax_lm.files.atomic import sync, write_text
from jax_lm.files.locking import FolderLock, is_locked
from jax_lm.preprocessing.manifest import (
    FORMAT_VERSION,
    Manifest,
    beside,
    encode_manifest,
    feature_files,
    manifest_path,
    read_manifest,
    rejected_path,
    tokenizer_directory,
)
from jax_lm.preprocessing.shards import ShardResult

Plan = Mapping[str, Any]
Say = Callable[[str], None]
WAIT_SECONDS = 0.5
PLAN_NAMES = {
    "format_version": "another version of the format",
    "source_fingerprint": "another source",
    "tokenizer_fingerprint": "another tokenizer",
}


def make_plan(source: str, tokenizer: str, settings: Mapping[str, Any]) -> Plan:
    """What decides the rows: two fingerprints and the settings.

    What to do with bad records is left out: shards without any are the same either way.
    """
    decisive = {key: value for key, value in settings.items() if key != "on_bad_record"}
    return {
        "format_version": FORMAT_VERSION,
        "source_fingerprint": source,
        "tokenizer_fingerprint": tokenizer,
        "settings": decisive,
    }


def plan_of(manifest: Manifest) -> Plan:
    """The plan a complete set was made by."""
    return make_plan(manifest.source_fingerprint, manifest.tokenizer_fingerprint, manifest.settings)


def differences(old: Plan, new: Plan) -> list[str]:
    """What differs between two plans, in words; an empty list if nothing does."""
    found = [words for key, words in PLAN_NAMES.items() if old.get(key) != new.get(key)]
    before, after = old.get("settings", {}), new.get("settings", {})
    for key in dict.fromkeys([*before, *after]):
        if before.get(key) != after.get(key):
            found.append(f"{key} was {before.get(key)}, is {after.get(key)}")
    return found


class PartialSet:
    """The unfinished set under a prefix."""

    def __init__(self, prefix: str, plan: Plan) -> None:
        """Nothing is read or written yet."""
        self.prefix = prefix
        self.plan = plan
        self.folder = beside(prefix, "partial")
        self._moves = self.folder / "moves.json"
        self._lock = FolderLock(self.folder)

    def begin(self, say: Say) -> None:
        """Lock the folder; keep what is in it if it was made by the same plan.

        Raises:
            BeingMade: another process is making the same set.
            JaxLMError: Parquet files that belong to no set are in the way.
        """
        self._lock.take()
        if self._moves.exists() and not manifest_path(self.prefix).exists():
            self._undo_moves()
        plan_file = self.folder / "plan.json"
        differ = differences(_read_json(plan_file), self.plan) if any(self.folder.iterdir()) else []
        if differ:
            say(f"discarding an unfinished run in {self.folder}: {'; '.join(differ)}")
            for path in self.folder.iterdir():
                _remove(path)
        try:
            self._refuse_strays()
        except JaxLMError:
            self.discard()
            raise
        if not plan_file.exists():
            write_text(plan_file, json.dumps(self.plan, indent=1))

    def parquet(self, index: int) -> Path:
        """Where the rows of a shard lie until the set is complete."""
        return parquet_path(self.folder, index)

    def result(self, index: int) -> ShardResult | None:
        """What a finished shard left, if its rows are there too."""
        content = _read_json(result_path(self.folder, index))
        if not content:
            return None
        lists = {key: tuple(content[key]) for key in ("rejected", "columns", "place")}
        result = ShardResult(**{**content, **lists})
        return result if result.rows == 0 or self.parquet(index).exists() else None

    def take_failure(self) -> JaxLMError | None:
        """The failure of the first shard that recorded one; all records are removed."""
        recorded = [(path, _read_json(path)) for path in sorted(self.folder.glob("*.error.json"))]
        for path, _ in recorded:
            path.unlink()
        return next((JaxLMError(content["message"]) for _, content in recorded if content), None)

    def publish(self, manifest: Manifest, parquet: Mapping[str, Path]) -> None:
        """Move everything to its final name, the manifest last.

        Args:
            manifest: the finished set's.
            parquet: the file in this folder for each final name.
        """
        parent = Path(self.prefix).parent
        moves = [(path, parent / name) for name, path in parquet.items()]
        moves.append((self.folder / "tokenizer", tokenizer_directory(self.prefix)))
        if manifest.totals.rejected:
            moves.append((self.folder / "rejected.jsonl", rejected_path(self.prefix)))
        old = self._old_set()
        record = {"moves": [[a.name, b.name] for a, b in moves], "old": [p.name for p in old]}
        write_text(self._moves, json.dumps(record))
        write_text(self.folder / "manifest.json", encode_manifest(manifest))
        for path in (manifest_path(self.prefix), *old):
            _remove(path)
        for path, final in moves:
            path.replace(final)
        sync(parent)
        (self.folder / "manifest.json").replace(manifest_path(self.prefix))
        sync(parent)
        self.discard()

    def discard(self) -> None:
        """Remove the folder and everything in it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.release()

    def release(self) -> None:
        """Let another process at the folder."""
        self._lock.release()

    def _undo_moves(self) -> None:
        """After a kill while files were moved: bring them back, drop what is left of an old set."""
        parent = Path(self.prefix).parent
        record = _read_json(self._moves)
        for name, final in record["moves"]:
            if (parent / final).exists() and not (self.folder / name).exists():
                (parent / final).replace(self.folder / name)
        for final in [*(final for _, final in record["moves"]), *record["old"]]:
            _remove(parent / final)
        self._moves.unlink()

    def _old_set(self) -> list[Path]:
        """Files of the complete set that is being replaced, its manifest apart."""
        if not manifest_path(self.prefix).exists():
            return []
        parent = Path(self.prefix).parent
        try:
            files = [parent / entry.name for entry in read_manifest(self.prefix).files]
        except JaxLMError:  # a broken manifest: its set is whatever has such names
            files = feature_files(self.prefix)
        return [*files, tokenizer_directory(self.prefix), rejected_path(self.prefix)]

    def _refuse_strays(self) -> None:
        strays = set(feature_files(self.prefix)) - set(self._old_set())
        if strays:
            raise JaxLMError(
                f"{min(strays)} belongs to no feature set (no manifest names it): "
                "move it away or choose another --output"
            )


def wait_until_free(prefix: str) -> None:
    """Return when no process is making the set under a prefix any more."""
    folder = beside(prefix, "partial")
    while folder.exists() and is_locked(folder):
        time.sleep(WAIT_SECONDS)


def parquet_path(folder: Path, index: int) -> Path:
    """A shard's rows inside the partial folder."""
    return folder / f"shard-{index:05d}.parquet"


def result_path(folder: Path, index: int) -> Path:
    """A shard's result inside the partial folder."""
    return folder / f"shard-{index:05d}.json"


def write_result(folder: Path, result: ShardResult) -> None:
    """Record a finished shard."""
    content = dataclasses.asdict(result)
    write_text(result_path(folder, result.index), json.dumps(content))


def write_failure(folder: Path, index: int, message: str) -> None:
    """Record why a shard failed, for the process that waits for it."""
    write_text(folder / f"shard-{index:05d}.error.json", json.dumps({"message": message}))


def has_failure(folder: Path) -> bool:
    """Whether a shard recorded a failure."""
    return any(folder.glob("*.error.json"))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)

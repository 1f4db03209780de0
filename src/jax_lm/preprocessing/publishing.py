"""Results of all shards -> the manifest of the set, and the set under its final names."""

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jax_lm.documents.conversations.templates import TEMPLATE_FILE, chat_template
from jax_lm.files.atomic import write_text
from jax_lm.preprocessing.features import column_names
from jax_lm.preprocessing.manifest import (
    FileEntry,
    Manifest,
    SpecialIds,
    SubsetTotals,
    Totals,
    file_name,
)
from jax_lm.preprocessing.options import PreprocessOptions
from jax_lm.preprocessing.partial import PartialSet
from jax_lm.preprocessing.shards import ShardResult
from jax_lm.tokenizers.base import Tokenizer


def publish(
    partial: PartialSet,
    results: Sequence[ShardResult],
    *,
    options: PreprocessOptions,
    source_name: str,
    tokenizer: Tokenizer,
    special: SpecialIds,
    engine: str,
) -> Manifest:
    """Write what belongs beside the rows and move everything to its final name."""
    filled = [result for result in results if result.rows]
    names = [file_name(partial.prefix, place, len(filled)) for place in range(len(filled))]
    rejected = [record for result in results for record in result.rejected]
    if rejected:
        lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in rejected]
        write_text(partial.folder / "rejected.jsonl", "".join(lines))
    tokenizer.save(partial.folder / "tokenizer")
    _keep_template(options.chat_template, partial.folder / "tokenizer")
    manifest = Manifest(
        mode=options.mode,
        sequence_length=options.row_length,
        row_length=filled[0].row_length,
        target_row_length=options.target_length,
        columns=column_names(filled[0].columns),
        target_kind=filled[0].kind,
        tokenizer_fingerprint=partial.plan["tokenizer_fingerprint"],
        vocab_size=tokenizer.vocab_size,
        special_ids=special,
        source=source_name,
        source_fingerprint=partial.plan["source_fingerprint"],
        settings=options.settings(),
        files=tuple(map(_entry, names, filled)),
        totals=_totals(results),
        subsets=_subsets(results),
        dropped=_dropped(results),
        engine=engine,
    )
    parquet = [partial.parquet(result.index) for result in filled]
    partial.publish(manifest, dict(zip(names, parquet, strict=True)))
    return manifest


def _keep_template(name: str | None, tokenizer: Path) -> None:
    """The template goes where the tokenizer goes: to the run, and to those who talk to its model.

    ``bare`` marks no turn, so nobody could answer by it.
    """
    if name is not None and name != "bare":
        write_text(tokenizer / TEMPLATE_FILE, chat_template(name, tokenizer).source)


def _entry(name: str, result: ShardResult) -> FileEntry:
    names = [field.name for field in dataclasses.fields(FileEntry) if field.name != "name"]
    return FileEntry(name=name, **{field: getattr(result, field) for field in names})


def _totals(results: Sequence[ShardResult]) -> Totals:
    def total(field: str) -> Any:
        values = [getattr(result, field) for result in results]
        return sum(len(v) if isinstance(v, tuple) else v for v in values)

    return Totals(**{field.name: total(field.name) for field in dataclasses.fields(Totals)})


def _subsets(results: Sequence[ShardResult]) -> dict[str, SubsetTotals]:
    sums: dict[str, Counter[str]] = {}
    for result in results:
        for name, counts in result.subsets.items():
            sums.setdefault(name, Counter()).update(counts)
    names = [field.name for field in dataclasses.fields(SubsetTotals)]
    return {name: SubsetTotals(**{key: sums[name][key] for key in names}) for name in sums}


def _dropped(results: Sequence[ShardResult]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for result in results:
        total.update(result.dropped)
    return dict(sorted(total.items()))

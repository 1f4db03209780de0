"""Shard -> Parquet file: what a Beam worker does, a pure function of the shard."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from jax_lm.documents.base import DocumentSource
from jax_lm.errors import JaxLMError
from jax_lm.files.atomic import file_sha256, replacing
from jax_lm.preprocessing.copies import without_copies
from jax_lm.preprocessing.cutting.base import Cutting
from jax_lm.preprocessing.cutting.blocks import cut_in_blocks
from jax_lm.preprocessing.features import write_features
from jax_lm.preprocessing.partial import parquet_path, write_result
from jax_lm.preprocessing.sentences import sentence_ends
from jax_lm.preprocessing.shard_work import write_each
from jax_lm.preprocessing.shards import Run, Shard, ShardResult
from jax_lm.preprocessing.tally import Tally
from jax_lm.preprocessing.tokenized import TokenizedDocuments, tokenize
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.encoders.base import Engine
from jax_lm.tokenizers.pretrained import PretrainedTokenizer, load_tokenizer
from jax_lm.types import Document


@dataclass(frozen=True, kw_only=True)
class ShardWriting:
    """Everything that a worker needs besides the shards; picklable."""

    source: DocumentSource
    tokenizer_directory: Path
    tokenizer_fingerprint: str
    engine: Engine
    folder: Path
    """Where the files are written."""
    cutting: Cutting
    parse_special: bool = False
    deduplicate: bool = False
    """Leave out the documents that ``mark_copies`` marked."""

    def write(self, run: Run) -> int:
        """Write each shard's file and result, unless a shard failed; returns how many.

        Raises:
            OSError: not even a failure can be recorded.
        """
        return write_each(run, self.folder, self.source, self._write)

    def _write(self, shard: Shard, source: DocumentSource) -> None:
        tokenizer = _tokenizer(self.tokenizer_directory, self.tokenizer_fingerprint, self.engine)
        source.rejects.clear()
        source.dropped.clear()
        texts: Iterator[Document] = (
            document for _, document in source.read(shard.range.start, shard.range.stop)
        )
        if self.deduplicate:
            texts = without_copies(texts, self.folder, shard, source.dropped)
        documents = tokenize(
            texts,
            tokenizer,
            parse_special=self.parse_special,
            sentence_ends=sentence_ends if self.cutting.sentences else None,
        )
        tally = Tally(self.cutting.kind)
        parts = tally.counting(cut_in_blocks(documents, self.cutting))
        columns: tuple[str, ...] = ()
        sha256 = ""
        first = next(parts, None)
        if first is not None:
            with replacing(parquet_path(self.folder, shard.index)) as temporary:
                columns = write_features(temporary, chain([first], parts))
                sha256 = file_sha256(temporary)
        result = ShardResult(
            index=shard.index,
            place=shard.place,
            kind=tally.kind,
            columns=columns,
            row_length=tally.row_length,
            sha256=sha256,
            rejected=tuple(record._asdict() for record in source.rejects),
            dropped=dict(sorted((source.dropped + tally.dropped).items())),
            subsets=_subset_totals(documents, tally.subset_rows),
            text_bytes=documents.text_bytes,
            spelled_bytes=int(documents.num_bytes.sum()),
            documents=len(documents.subset_ids),
            **tally.counts,
        )
        write_result(self.folder, result)


def _subset_totals(
    documents: TokenizedDocuments, rows: Mapping[int, int]
) -> dict[str, dict[str, int]]:
    count = len(documents.subsets)
    of_token = np.repeat(documents.subset_ids, documents.lengths)
    found = {
        "documents": np.bincount(documents.subset_ids, minlength=count),
        "tokens": np.bincount(of_token, minlength=count),
        "text_bytes": np.bincount(of_token, documents.num_bytes, minlength=count),
    }
    return {
        name: {key: int(values[index]) for key, values in found.items()} | {"rows": rows[index]}
        for index, name in enumerate(documents.subsets)
    }


_LOADED: dict[tuple[str, Engine], Tokenizer] = {}
"""Tokenizers of this process, by fingerprint and encoder."""


def lend_tokenizer(tokenizer: PretrainedTokenizer) -> None:
    """Spare workers that are threads of this process the loading."""
    _LOADED[tokenizer.fingerprint(), tokenizer.engine] = tokenizer


def _tokenizer(directory: Path, fingerprint: str, engine: Engine) -> Tokenizer:
    """Load the tokenizer once a process, and make sure that it is the planned one."""
    if (fingerprint, engine) not in _LOADED:
        tokenizer = load_tokenizer(directory, engine)
        if tokenizer.fingerprint() != fingerprint:
            raise JaxLMError(f"{directory}: the tokenizer changed while the run was going on")
        _LOADED[fingerprint, engine] = tokenizer
    return _LOADED[fingerprint, engine]

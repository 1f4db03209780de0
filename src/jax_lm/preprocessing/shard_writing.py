"""Shard -> Parquet file: what a Beam worker does, a pure function of the shard."""

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from jax_lm.documents.base import DocumentSource
from jax_lm.errors import JaxLMError
from jax_lm.preprocessing.atomic import file_sha256, replacing
from jax_lm.preprocessing.features import write_features
from jax_lm.preprocessing.partial import has_failure, parquet_path, write_failure, write_result
from jax_lm.preprocessing.shards import Shard, ShardResult
from jax_lm.preprocessing.transforms import (
    KINDS,
    PackedRows,
    Tokenized,
    needed_kind,
    pack,
    tokenize,
)
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.pretrained import load_tokenizer


@dataclass(frozen=True, kw_only=True)
class ShardWriting:
    """Everything that a worker needs besides the shard; picklable."""

    source: DocumentSource
    tokenizer_directory: Path
    tokenizer_fingerprint: str
    folder: Path
    """Where the files are written."""
    sequence_length: int
    separator: int | None
    pad_id: int
    kind: str
    """Least kind of targets to write."""

    def write(self, shard: Shard) -> int:
        """Write one shard's file and result, unless another shard failed, and return its index.

        Documents that cannot be read or a file that cannot be written are recorded in the folder
        and not raised: runners would try again in vain and wrap the error in their own.

        Raises:
            OSError: not even the failure can be recorded.
        """
        if has_failure(self.folder):
            return shard.index
        try:
            self._write(shard)
        except (JaxLMError, OSError) as error:
            try:
                write_failure(self.folder, shard.index, _sentence(error))
            except OSError:  # a full disk, say
                raise error from None
        return shard.index

    def _write(self, shard: Shard) -> None:
        tokenizer = _tokenizer(self.tokenizer_directory, self.tokenizer_fingerprint)
        self.source.rejects.clear()
        documents = (
            document for _, document in self.source.read(shard.range.start, shard.range.stop)
        )
        tokenized = tokenize(documents, tokenizer, self.separator)
        streams = tokenized.streams
        kind = max(self.kind, needed_kind(streams.values()), key=KINDS.index)
        parts = [
            pack(subset, stream, self.sequence_length, kind=kind, pad_id=self.pad_id)
            for subset, stream in streams.items()
            if len(stream.ids)
        ]
        sha256 = ""
        if parts:
            path = parquet_path(self.folder, shard.index)
            with replacing(path) as temporary:
                write_features(temporary, parts, kind)
                sha256 = file_sha256(temporary)
        result = _result(shard, kind, tokenized, parts)
        rejected = tuple(record._asdict() for record in self.source.rejects)
        write_result(self.folder, replace(result, sha256=sha256, rejected=rejected))


def _result(shard: Shard, kind: str, tokenized: Tokenized, parts: list[PackedRows]) -> ShardResult:
    streams = tokenized.streams.values()
    return ShardResult(
        index=shard.index,
        kind=kind,
        rows=sum(len(part.num_bytes) for part in parts),
        tokens=sum(len(stream.ids) for stream in streams),
        targets=sum(part.targets for part in parts),
        padding=sum(part.rows.input_ids.size - int(part.rows.lengths.sum()) for part in parts),
        num_bytes=sum(int(part.num_bytes.sum()) for part in parts),
        text_bytes=tokenized.text_bytes,
        spelled_bytes=sum(int(stream.spelled.sum()) for stream in streams),
        documents=tokenized.documents,
    )


@lru_cache(maxsize=2)
def _tokenizer(directory: Path, fingerprint: str) -> Tokenizer:
    """Load the tokenizer once a process, and make sure that it is the planned one."""
    tokenizer = load_tokenizer(directory)
    if tokenizer.fingerprint() != fingerprint:
        raise JaxLMError(f"{directory}: the tokenizer changed while the run was going on")
    return tokenizer


def _sentence(error: JaxLMError | OSError) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)

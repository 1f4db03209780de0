"""Which program encodes a corpus: the fastest that agrees with the library on a sample of it."""

from collections.abc import Iterator, Sequence

from jax_lm.documents.base import DocumentRange, DocumentSource
from jax_lm.preprocessing.shards import Shard
from jax_lm.tokenizers.encoders.choosing import EngineChoice, Wanted, choose_engine
from jax_lm.tokenizers.pretrained import PretrainedTokenizer

PLACES = 16
SAMPLE_CHARACTERS = 500_000
"""The library takes a tenth of a second for so much."""


def engine_for(
    source: DocumentSource, shards: Sequence[Shard], tokenizer: PretrainedTokenizer, wanted: Wanted
) -> EngineChoice:
    """Choose by texts from all over the corpus.

    Raises:
        JaxLMError: the one that is wanted cannot be used, or a document cannot be read.
    """
    texts = list(_sample(source, [shard.range for shard in shards]))
    source.rejects.clear()
    source.dropped.clear()
    return choose_engine(tokenizer, texts, wanted)


def _sample(source: DocumentSource, ranges: Sequence[DocumentRange]) -> Iterator[str]:
    reached = [cut for cut in ranges if not cut.follows]
    chosen = reached[:: max(1, len(reached) // PLACES)]
    share = SAMPLE_CHARACTERS // max(len(chosen), 1)
    for cut in chosen:
        room = share
        for _, document in source.read(cut.start, cut.stop):
            for segment in document.segments:
                yield segment.text[:room]
                room -= len(segment.text)
            if room <= 0:
                break

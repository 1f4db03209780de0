"""Which program encodes a corpus: the fastest that agrees with the library on a sample of it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from jax_lm.documents.base import DocumentRange, DocumentSource
from jax_lm.preprocessing.notes import template_notes
from jax_lm.preprocessing.partial import Say
from jax_lm.preprocessing.shards import Shard
from jax_lm.tokenizers.encoders.choosing import EngineChoice, Wanted, choose_engine
from jax_lm.tokenizers.pretrained import PretrainedTokenizer
from jax_lm.types import Segment

PLACES = 16
SAMPLE_CHARACTERS = 500_000
"""The library takes a tenth of a second for so much."""


def engine_for(
    source: DocumentSource,
    shards: Sequence[Shard],
    tokenizer: PretrainedTokenizer,
    wanted: Wanted,
    *,
    say: Say,
) -> EngineChoice:
    """Choose by texts from all over the corpus, and say what was chosen.

    Raises:
        JaxLMError: the one that is wanted cannot be used, or a document cannot be read.
    """
    segments = list(_sample(source, [shard.range for shard in shards]))
    source.rejects.clear()
    source.dropped.clear()
    choice = choose_engine(tokenizer, [segment.text for segment in segments], wanted)
    say(choice.sentence())
    for note in template_notes(segments, tokenizer):
        say(note)
    return choice


def _sample(source: DocumentSource, ranges: Sequence[DocumentRange]) -> Iterator[Segment]:
    reached = [cut for cut in ranges if not cut.follows]
    chosen = reached[:: max(1, len(reached) // PLACES)]
    share = SAMPLE_CHARACTERS // max(len(chosen), 1)
    for cut in chosen:
        room = share
        for _, document in source.read(cut.start, cut.stop):
            for segment in document.segments:
                yield replace(segment, text=segment.text[:room])
                room = max(room - len(segment.text), 0)
            if room <= 0:
                break

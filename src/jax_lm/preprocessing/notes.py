"""What a person should know of a set beside its numbers."""

import re
from collections.abc import Iterator, Sequence

from jax_lm.preprocessing.cutting.base import start_id
from jax_lm.preprocessing.manifest import Manifest
from jax_lm.preprocessing.options import PreprocessOptions
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.types import Segment

SPECIAL_LOOKING = re.compile(r"<[^<>\s]{1,30}>")


def template_notes(segments: Sequence[Segment], tokenizer: Tokenizer) -> Iterator[str]:
    """Special tokens of a chat template that the tokenizer does not know."""
    markup = {segment.text for segment in segments if segment.markup}
    written = {name for text in markup for name in SPECIAL_LOOKING.findall(text)}
    known = {tokenizer.token_text(token_id) for token_id in tokenizer.special_ids}
    if unknown := sorted(written - known):
        yield (
            f"note: {', '.join(unknown)} of the chat template is no special token of the "
            "tokenizer and is cut as ordinary text"
        )


def set_notes(manifest: Manifest, options: PreprocessOptions) -> Iterator[str]:
    """Subsets that nothing belongs to, and documents that begin without context."""
    for name in sorted((options.kept_subsets or frozenset()) - set(manifest.subsets)):
        yield f"note: --subsets: no document is of subset {name!r}"
    if options.mode == "rolling" and start_id(manifest.special_ids) is None:
        yield (
            "note: the tokenizer has no BOS or EOS and no separator is named, so the first token "
            "of each document is context only: see --separator-token"
        )

"""Loss, perplexity, accuracy and bits per byte of documents, by two named methods."""

import re
from collections.abc import Iterable, Iterator

import numpy as np
from jaxtyping import Float, Int

from jax_lm.evaluation.scoring.methods import MethodConfig, row_lengths
from jax_lm.evaluation.scoring.pieces import USUAL, Piece, PieceScorer, Scoring
from jax_lm.evaluation.scoring.tally import Tally
from jax_lm.evaluation.scoring.windows import windows
from jax_lm.models.decoder import Decoder
from jax_lm.preprocessing.tokenized import pieces
from jax_lm.tokenizers.base import Tokenizer, start_id
from jax_lm.tokenizers.segments import encode_segments
from jax_lm.types import Batch, Document

WHITE_SPACE = re.compile(r"\s+")


def evaluate_documents(
    model: Decoder,
    tokenizer: Tokenizer,
    documents: Iterable[Document],
    config: MethodConfig,
    scoring: Scoring = USUAL,
) -> Tally:
    """The sums of every document; each token of each document is scored exactly once.

    Args:
        model: a causal language model; where a mesh is given, on it.
        tokenizer: the model's.
        documents: what to score; the weights of their segments are the tokens' weights.
        config: how documents are cut into windows.
        scoring: batch size, dtype and mesh.
    """
    tally, lengths = Tally(), row_lengths(config.window)
    scorer = PieceScorer(model, tally, lengths, scoring)
    special = sorted(tokenizer.special_ids)
    for document in documents:
        number = tally.begin(document.subset, num_words(document))
        for piece in _cut(document, number, tokenizer, config, special):
            scorer.add(piece)
    scorer.finish()
    return tally


def num_words(document: Document) -> int:
    """Pieces between white space of the scored text, as lm-evaluation-harness counts them.

    0 of a document that came in as ids: its text is not at hand.
    """
    if any(segment.ids is not None for segment in document.segments):
        return 0
    scored = (s.text for s in document.segments if s.weight > 0 and not s.markup)
    return len(WHITE_SPACE.split("".join(scored)))


def encode_document(
    document: Document, tokenizer: Tokenizer
) -> tuple[Int[np.ndarray, "tokens"], Float[np.ndarray, "tokens"], Int[np.ndarray, "tokens"]]:
    """Ids, each one's weight as a target, and the UTF-8 bytes it stands for."""
    segments = pieces(document)
    ids, offsets, num_bytes = encode_segments(segments, tokenizer)
    weights = np.repeat([segment.weight for segment in segments], np.diff(offsets))
    return ids, weights.astype(np.float32), num_bytes


def filled(values: np.ndarray, width: int) -> np.ndarray:
    """The values, with zeros after them."""
    row = np.zeros(width, values.dtype)
    row[: len(values)] = values
    return row


def _cut(
    document: Document,
    number: int,
    tokenizer: Tokenizer,
    config: MethodConfig,
    special: list[int],
) -> Iterator[Piece]:
    ids, weights, num_bytes = encode_document(document, tokenizer)
    first = start_id(tokenizer)
    if first is not None:
        ids, weights, num_bytes = (
            np.concatenate([[lead], array]).astype(array.dtype)
            for lead, array in ((first, ids), (0, weights), (0, num_bytes))
        )
    text = (num_bytes > 0) | ~np.isin(ids, special)
    lengths = row_lengths(config.window)
    for start, stop, scored in windows(len(ids) - 1, config.window, config.context):
        width = next(length for length in lengths if length >= stop - start)
        targets = slice(start + 1, stop + 1)
        target_weights = weights[targets].copy()
        target_weights[: stop - start - scored] = 0
        yield Piece(
            number,
            Batch(
                filled(ids[start:stop], width),
                filled(ids[targets], width),
                filled(target_weights, width),
            ),
            filled(num_bytes[targets], width),
            filled(text[targets], width),
        )

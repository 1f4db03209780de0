"""Pseudo-log-likelihood of documents: what masked models say of text.

Each token is hidden once and predicted from all others of its window; the sum of their -log p
takes the place of -log p of the text (Salazar et al. 2020, arXiv:1910.14659, section 2). It is no
probability of the text, so it compares masked models with each other and not with decoders.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from jax_lm.errors import UsageError
from jax_lm.evaluation.scoring.methods import MethodConfig, row_lengths
from jax_lm.evaluation.scoring.perplexity import encode_document, filled, num_words
from jax_lm.evaluation.scoring.pieces import USUAL, Piece, PieceScorer, Scoring
from jax_lm.evaluation.scoring.tally import Tally
from jax_lm.evaluation.scoring.windows import windows
from jax_lm.models.encoder import Encoder
from jax_lm.objectives.masked_lm import mask_id_of
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.types import Batch, Document


class _Frame(NamedTuple):
    """What stands around a window's tokens, and in place of the hidden one."""

    before: np.ndarray
    after: np.ndarray
    mask_id: int
    special: list[int]


def evaluate_masked(
    model: Encoder,
    tokenizer: Tokenizer,
    documents: Iterable[Document],
    config: MethodConfig,
    scoring: Scoring = USUAL,
) -> Tally:
    """The sums of every document; each token of each document is hidden and scored exactly once.

    Documents are cut into windows that do not overlap, but for the last, which is shifted back to
    the document's end. Each stands between BOS and EOS, where the tokenizer has them. Special
    tokens, those within a document too, are not scored.

    Args:
        model: a masked language model; where a mesh is given, on it.
        tokenizer: the model's.
        documents: what to score; the weights of their segments are the tokens' weights.
        config: its window is that of the model's inputs, with BOS and EOS.
        scoring: batch size, dtype and mesh; a row holds one hidden token.

    Raises:
        JaxLMError: the tokenizer has no mask token.
        UsageError: the window has no room for text.
    """
    frame = _frame(tokenizer)
    tally, lengths = Tally(), row_lengths(config.window)
    room = config.window - len(frame.before) - len(frame.after)
    if room < 1:
        raise UsageError(f"--window {config.window} has no room for text between BOS and EOS")
    scorer = PieceScorer(model, tally, lengths, scoring)
    for document in documents:
        number = tally.begin(document.subset, num_words(document))
        for piece in _hidden_once(document, number, tokenizer, frame, config.window):
            scorer.add(piece)
    scorer.finish()
    return tally


def _frame(tokenizer: Tokenizer) -> _Frame:
    before, after = (
        np.array([] if token_id is None else [token_id], np.int32)
        for token_id in (tokenizer.bos_id, tokenizer.eos_id)
    )
    mask_id = mask_id_of(tokenizer, "masked-lm")
    return _Frame(before, after, mask_id, sorted(tokenizer.special_ids))


def _hidden_once(
    document: Document, number: int, tokenizer: Tokenizer, frame: _Frame, window: int
) -> Iterator[Piece]:
    ids, weights, num_bytes = encode_document(document, tokenizer)
    scores = (weights > 0) & ~np.isin(ids, frame.special)
    lead = len(frame.before)
    for start, stop, scored in windows(len(ids), window - lead - len(frame.after), 1):
        line = np.concatenate([frame.before, ids[start:stop], frame.after])
        width = next(length for length in row_lengths(window) if length >= len(line))
        real = filled(np.ones(len(line), np.int32), width)
        for token in range(stop - scored, stop):
            if not scores[token]:
                continue
            place = lead + token - start
            row = filled(line, width)
            row[place] = frame.mask_id
            one = slice(token, token + 1)
            yield Piece(
                number,
                Batch(row, ids[one], weights[one], real),
                num_bytes[one],
                np.ones(1, bool),
                np.array([place], np.int32),
            )

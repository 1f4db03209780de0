"""Loss, perplexity, accuracy and bits per byte of documents, by two named methods."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from jax_lm.errors import UsageError
from jax_lm.evaluation.score_batch import pad_rows, score_batch
from jax_lm.evaluation.scores import Scores, sum_scores
from jax_lm.evaluation.windows import windows
from jax_lm.models.decoder import Decoder
from jax_lm.preprocessing.tokenized import pieces
from jax_lm.tokenizers.base import Tokenizer, start_id
from jax_lm.tokenizers.segments import encode_segments
from jax_lm.types import Batch, Document

Method = Literal["rolling", "disjoint"]


@dataclass(frozen=True, kw_only=True)
class MethodConfig:
    """How documents are cut into windows; always told with the number."""

    method: Method = "rolling"
    """``rolling``: every token sees at least ``context`` tokens before it, where the document has
    them (the Pile paper's). ``disjoint``: windows do not overlap, except the last of a document,
    which is shifted back to its end (lm-evaluation-harness's)."""
    window: int
    """Inputs of a window, in tokens."""
    context: int
    """``rolling``: inputs that a later window's first new target sees at least."""

    def __post_init__(self) -> None:
        """Refuse windows that score nothing."""
        if not 1 <= self.context <= self.window:
            raise UsageError(
                f"context {self.context} must lie between 1 and the window, {self.window} tokens"
            )

    def describe(self, start_id: int | None) -> str:
        """The method and its settings in a line."""
        first = "conditioned on BOS/EOS" if start_id is not None else "context only, not scored"
        settings = f"window {self.window}"
        if self.method == "rolling":
            settings += f", context {self.context}"
        return f"{self.method} ({settings} tokens; the first token of a document is {first})"


def method_config(
    method: Method, *, window: int | None, context: int | None, model_context: int
) -> MethodConfig:
    """Fill in defaults: the model's whole context as window, half of it as rolling context.

    Raises:
        UsageError: the window is longer than the model's context, or a context with ``disjoint``.
    """
    window = model_context if window is None else window
    if not 1 <= window <= model_context:
        raise UsageError(f"window {window} must lie between 1 and the model's {model_context}")
    if method == "disjoint":
        if context not in (None, 1):
            raise UsageError("--context-length belongs to --method rolling")
        return MethodConfig(method=method, window=window, context=1)
    return MethodConfig(
        method=method, window=window, context=max(1, window // 2) if context is None else context
    )


class _Piece(NamedTuple):
    """One window, ready to be scored."""

    subset: str
    input_ids: Int[np.ndarray, "window"]
    targets: Int[np.ndarray, "window"]
    weights: Float[np.ndarray, "window"]
    num_bytes: Int[np.ndarray, "window"]
    """UTF-8 bytes that each target stands for."""
    is_text: Bool[np.ndarray, "window"]
    """Targets that are text; a piece that only marks a space before the text has no bytes."""


def evaluate_documents(
    model: Decoder,
    tokenizer: Tokenizer,
    documents: Iterable[Document],
    config: MethodConfig,
    *,
    batch_size: int = 16,
    dtype: str = "float32",
    advance: Callable[[int], None] = lambda scored: None,
) -> dict[str, Scores]:
    """Scores of every subset; each token of each document is scored exactly once.

    Args:
        model: a causal language model.
        tokenizer: the model's.
        documents: what to score; the weights of their segments are the tokens' weights.
        config: how documents are cut into windows.
        batch_size: windows scored at once; the numbers do not depend on it.
        dtype: of the model's computation.
        advance: told the number of tokens scored after every batch.
    """
    cut = (piece for document in documents for piece in _cut(document, tokenizer, config))
    scores: dict[str, Scores] = {}
    while batch := list(islice(cut, batch_size)):
        stacked = Batch(*(np.stack([piece[i] for piece in batch]) for i in (1, 2, 3)))
        padded = pad_rows(stacked, batch_size)
        losses, correct = jax.device_get(score_batch(model, padded, dtype=dtype))
        for row, piece in enumerate(batch):
            scores[piece.subset] = scores.get(piece.subset, Scores()) + sum_scores(
                losses[row], correct[row], piece.weights, piece.num_bytes, piece.is_text
            )
        advance(int((stacked.loss_mask > 0).sum()))
    return scores


def _cut(document: Document, tokenizer: Tokenizer, config: MethodConfig) -> Iterator[_Piece]:
    ids, weights, num_bytes = _encode(document, tokenizer)
    special = sorted(tokenizer.special_ids)
    for start, stop, scored in windows(len(ids) - 1, config.window, config.context):
        length = stop - start
        arrays = np.zeros((2, config.window), np.int32)
        arrays[0, :length] = ids[start:stop]
        arrays[1, :length] = ids[start + 1 : stop + 1]
        target_weights = np.zeros(config.window, np.float32)
        target_weights[length - scored : length] = weights[stop + 1 - scored : stop + 1]
        target_bytes = np.zeros(config.window, np.int32)
        target_bytes[:length] = num_bytes[start + 1 : stop + 1]
        is_text = (target_bytes > 0) | ~np.isin(arrays[1], special)
        inputs, targets = arrays
        yield _Piece(document.subset, inputs, targets, target_weights, target_bytes, is_text)


def _encode(
    document: Document, tokenizer: Tokenizer
) -> tuple[Int[np.ndarray, "tokens"], Float[np.ndarray, "tokens"], Int[np.ndarray, "tokens"]]:
    """Ids, led by the start id if there is one, with each one's weight as a target and bytes."""
    segments = pieces(document)
    ids, offsets, num_bytes = encode_segments(segments, tokenizer)
    weights = np.repeat([segment.weight for segment in segments], np.diff(offsets))
    first = start_id(tokenizer)
    lead = np.array([] if first is None else [first], np.int32)
    nothing = np.zeros(len(lead), np.int32)
    return (
        np.concatenate([lead, ids]),
        np.concatenate([nothing, weights]).astype(np.float32),
        np.concatenate([nothing, num_bytes]),
    )

"""Mode ``windows``: a stride over each document, every window between BOS and EOS."""

import numpy as np

from jax_lm.errors import JaxLMError
from jax_lm.preprocessing.cutting.base import Cutting, FeatureRows, end_id, start_id
from jax_lm.preprocessing.cutting.runs import EMPTY, Runs, covered, document_runs, framed_rows
from jax_lm.preprocessing.tokenized import TokenizedDocuments


def cut_windows(documents: TokenizedDocuments, cutting: Cutting) -> FeatureRows:
    """Cut each document every ``stride`` tokens into windows of up to T targets.

    A window is ``[BOS] chunk [EOS]``, where the chunk has T + 1 tokens less the places kept for
    special tokens; inputs are its first T ids, labels the ones after each. Every window is framed
    so, also in the middle of a document. With the default stride each token is a target once;
    with a smaller one, windows overlap and what they share is scored in each. Windows shorter
    than the minimum are left out and counted. Where targets are drawn, a window has T ids, and
    each may become one.

    Raises:
        JaxLMError: T has no room for text.
    """
    begin, end = start_id(cutting.special), end_id(cutting.special)
    chunk = _chunk(cutting, (begin is not None) + (end is not None))
    # Without one in front, a window's first token would never be the next of another.
    overlap = int(begin is None and cutting.kind != "drawn")
    stride = cutting.stride or max(chunk - overlap, 1)
    trimmed = (None, None) if cutting.seed_compatible else (begin, end)
    whole = document_runs(documents, *trimmed)
    windows = _strided(whole, chunk, stride, overlap if cutting.stride is None else 0)
    kept, dropped = _long_enough(windows, cutting, chunk)
    empty = len(documents.subset_ids) - len(whole.document)
    if empty:
        dropped[EMPTY] = empty
    features = framed_rows(documents, kept, cutting)
    held = np.minimum(kept.length, cutting.window_length - (begin is not None))
    cut_off = int(whole.length.sum()) - covered(kept.start, held, len(documents.ids))
    return features._replace(dropped=dropped, cut_off=cut_off)


def _chunk(cutting: Cutting, needed: int) -> int:
    """Tokens of text in a full window."""
    reserved = needed if cutting.num_special_tokens is None else cutting.num_special_tokens
    if not cutting.seed_compatible:
        reserved = max(reserved, needed)
    chunk = cutting.window_length - reserved
    if chunk < 1:
        raise JaxLMError(
            f"--max-sequence-length {cutting.sequence_length} leaves no room for text beside "
            f"{reserved} special tokens"
        )
    return chunk


def _strided(whole: Runs, chunk: int, stride: int, overlap: int) -> Runs:
    """Windows that start every ``stride`` tokens, up to the last that begins in the document."""
    counts = np.maximum(-(-(whole.length - overlap) // stride), 1)
    index = np.repeat(np.arange(len(counts)), counts)
    offset = (np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)) * stride
    length = np.minimum(whole.length[index] - offset, chunk)
    return Runs(whole.document[index], whole.start[index] + offset, length)


def _long_enough(windows: Runs, cutting: Cutting, chunk: int) -> tuple[Runs, dict[str, int]]:
    least = cutting.min_sequence_length
    if least is None:
        return windows, {}
    # A full chunk gives T targets, each token less takes one away.
    kept = windows.length >= least - (cutting.sequence_length - chunk)
    left_out = int((~kept).sum())
    reason = f"windows shorter than {least}"
    return windows.chosen(kept), {reason: left_out} if left_out else {}

"""Mode ``pairs``: inputs and outputs kept apart."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from jax_lm.preprocessing.cutting.base import Cutting, FeatureRows
from jax_lm.preprocessing.cutting.rows import runs_as_rows
from jax_lm.preprocessing.tokenized import TokenizedDocuments
from jax_lm.types import Rows

NO_OUTPUT = "pairs with an empty output"
NO_INPUT = "documents without an input (a leading part of weight 0)"
SEVERAL = "documents whose output has parts of another weight than 1, as several turns give"


class Pairs(NamedTuple):
    """Where the parts of each document lie: input, output, then what no row holds."""

    start: Int[np.ndarray, "documents"]
    border: Int[np.ndarray, "documents"]
    stop: Int[np.ndarray, "documents"]


def cut_pairs(documents: TokenizedDocuments, cutting: Cutting) -> FeatureRows:
    """Split each document into its leading tokens of weight 0 and the rest.

    An input that is too long keeps its last tokens, an output its first. A complete output is
    closed with EOS if there is one and it fits; inputs are stored as they are. What follows the
    last scored token, such as the markup that closes a turn, is cut off. Documents that are no
    pair are left out and counted.
    """
    whole = _pairs(documents)
    kept, dropped = _sorted_out(documents, whole)
    pairs = Pairs(*(part[kept] for part in whole))
    widths = (cutting.max_input_length, cutting.max_output_length)
    width_in, width_out = (width or cutting.sequence_length for width in widths)
    length_in = np.minimum(pairs.border - pairs.start, width_in)
    length_out = np.minimum(pairs.stop - pairs.border, width_out)
    pad = cutting.special.pad
    inputs = runs_as_rows(
        documents.ids, pairs.border - length_in, length_in, width=width_in, fill=pad
    )
    outputs = runs_as_rows(documents.ids, pairs.border, length_out, width=width_out, fill=pad)
    spelled = runs_as_rows(documents.num_bytes, pairs.border, length_out, width=width_out)
    closed = _close(outputs, length_out, cutting.special.eos)
    held = int(length_in.sum() + length_out.sum())
    return FeatureRows(
        Rows(
            inputs,
            length_in.astype(np.int32),
            target_ids=outputs,
            target_lengths=(length_out + closed).astype(np.int32),
        ),
        spelled.sum(axis=1, dtype=np.int32),
        documents.subset_ids[kept],
        documents.subsets,
        targets=int(length_out.sum() + closed.sum()),
        tokens=held + int(closed.sum()),
        cut_off=int(documents.lengths[kept].sum()) - held,
        dropped=dropped,
    )


def _pairs(documents: TokenizedDocuments) -> Pairs:
    start, end = documents.offsets[:-1], documents.offsets[1:]
    if documents.weights is None:
        return Pairs(start, start, end)
    scored = np.flatnonzero(documents.weights > 0)
    first = np.append(scored, len(documents.ids))[np.searchsorted(scored, start)]
    after = np.append(0, scored + 1)[np.searchsorted(scored, end)]
    return Pairs(start, np.minimum(first, end), np.maximum(after, start))


def _sorted_out(
    documents: TokenizedDocuments, pairs: Pairs
) -> tuple[Bool[np.ndarray, "documents"], dict[str, int]]:
    """Which documents are pairs, and how many are not, by reason."""
    kept = np.ones(len(pairs.start), bool)
    dropped = {}
    problems = {
        NO_OUTPUT: pairs.stop <= pairs.border,
        NO_INPUT: pairs.border == pairs.start,
        SEVERAL: ~_all_one(documents, pairs),
    }
    for reason, found in problems.items():
        if count := int((kept & found).sum()):
            dropped[reason] = count
        kept &= ~found
    return kept, dropped


def _all_one(documents: TokenizedDocuments, pairs: Pairs) -> Bool[np.ndarray, "documents"]:
    if documents.weights is None:
        return np.ones(len(pairs.start), bool)
    others = np.concatenate([[0], np.cumsum(documents.weights != 1)])
    alike: np.ndarray = others[np.maximum(pairs.stop, pairs.border)] == others[pairs.border]
    return alike


def _close(
    outputs: Int[np.ndarray, "rows width"], lengths: Int[np.ndarray, "rows"], eos: int | None
) -> Bool[np.ndarray, "rows"]:
    """Put EOS after each output that has room and does not end with it; say which."""
    if eos is None:
        return np.zeros(len(lengths), bool)
    rows = np.arange(len(lengths))
    closed: np.ndarray = (lengths < outputs.shape[1]) & (outputs[rows, lengths - 1] != eos)
    outputs[rows[closed], lengths[closed]] = eos
    return closed

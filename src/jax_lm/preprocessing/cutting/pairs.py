"""Mode ``pairs``: inputs and outputs kept apart."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from jax_lm.preprocessing.cutting.base import Cutting, FeatureRows
from jax_lm.preprocessing.cutting.rows import runs_as_rows
from jax_lm.preprocessing.cutting.runs import covered
from jax_lm.preprocessing.tokenized import TokenizedDocuments
from jax_lm.types import Rows

NO_OUTPUT = "documents without an output (a part of weight 1)"
NO_INPUT = "outputs without an input before them (a part of weight 0)"
OTHER_WEIGHTS = "outputs of another weight than 1"


class Pairs(NamedTuple):
    """Input ``[start, border)`` and output ``[border, stop)`` of each pair, as positions."""

    document: Int[np.ndarray, "pairs"]
    start: Int[np.ndarray, "pairs"]
    border: Int[np.ndarray, "pairs"]
    stop: Int[np.ndarray, "pairs"]


def cut_pairs(documents: TokenizedDocuments, cutting: Cutting) -> FeatureRows:
    """Give each run of scored tokens a row: it is the output, what is before it the input.

    So a conversation of several turns gives a pair for each answer, with all earlier turns as
    its input. An input that is too long keeps its last tokens, an output its first. A complete
    output is closed with EOS if there is one and it fits; inputs are stored as they are. What
    makes no pair is left out and counted.
    """
    pairs, dropped = _pairs(documents)
    widths = (cutting.max_input_length, cutting.max_output_length)
    width_in, width_out = (width or cutting.sequence_length for width in widths)
    length_in = np.minimum(pairs.border - pairs.start, width_in)
    length_out = np.minimum(pairs.stop - pairs.border, width_out)
    first, pad = pairs.border - length_in, cutting.special.pad
    inputs = runs_as_rows(documents.ids, first, length_in, width=width_in, fill=pad)
    outputs = runs_as_rows(documents.ids, pairs.border, length_out, width=width_out, fill=pad)
    spelled = runs_as_rows(documents.num_bytes, pairs.border, length_out, width=width_out)
    closed = _close(outputs, length_out, cutting.special.eos)
    targets = int(length_out.sum() + closed.sum())
    held = covered(first, length_in + length_out, len(documents.ids))
    return FeatureRows(
        Rows(
            inputs,
            length_in.astype(np.int32),
            target_ids=outputs,
            target_lengths=(length_out + closed).astype(np.int32),
        ),
        spelled.sum(axis=1, dtype=np.int32),
        documents.subset_ids[pairs.document],
        documents.subsets,
        targets=targets,
        tokens=targets + int(length_in.sum()),
        cut_off=len(documents.ids) - held,
        dropped=dropped,
    )


def _pairs(documents: TokenizedDocuments) -> tuple[Pairs, dict[str, int]]:
    """Pairs of all documents, and how much is none, by reason."""
    weights = documents.weights
    if weights is None:
        weights = np.ones(len(documents.ids), np.float32)
    begins = np.zeros(len(weights) + 1, bool)
    begins[documents.offsets] = True
    scored = np.append(weights > 0, False)
    before = np.append(False, scored[:-1])
    border = np.flatnonzero(scored & (begins | ~before))
    stop = np.flatnonzero(before & (begins | ~scored))
    document = np.searchsorted(documents.offsets, border, side="right") - 1
    pairs = Pairs(document, documents.offsets[document], border, stop)
    others = np.append(0, np.cumsum(weights != 1))
    problems = {
        NO_INPUT: pairs.start == pairs.border,
        OTHER_WEIGHTS: others[stop] > others[border],
    }
    silent = len(documents.lengths) - len(np.unique(document))
    dropped = {NO_OUTPUT: silent} if silent else {}
    kept = np.ones(len(border), bool)
    for reason, found in problems.items():
        if count := int((kept & found).sum()):
            dropped[reason] = count
        kept &= ~found
    return Pairs(*(part[kept] for part in pairs)), dropped


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

"""Mode ``documents``: one document a row, between BOS and EOS."""

from jax_lm.preprocessing.cutting.base import Cutting, FeatureRows, end_id, start_id
from jax_lm.preprocessing.cutting.runs import EMPTY, document_runs, framed_rows
from jax_lm.preprocessing.tokenized import TokenizedDocuments


def cut_whole(documents: TokenizedDocuments, cutting: Cutting) -> FeatureRows:
    """Give each document a row ``[BOS] tokens [EOS]`` of up to T + 1 ids (T if targets are drawn).

    A longer document loses its end, and EOS with it, since that is not where it ended; what is
    cut off is counted. A BOS or EOS that the document has already is not repeated.
    """
    begin, end = start_id(cutting.special), end_id(cutting.special)
    runs = document_runs(documents, begin, end)
    features = framed_rows(documents, runs, cutting)
    room = cutting.window_length - (begin is not None)
    empty = len(documents.subset_ids) - len(runs.document)
    return features._replace(
        cut_off=int((runs.length - room).clip(0).sum()),
        dropped={EMPTY: empty} if empty else {},
    )

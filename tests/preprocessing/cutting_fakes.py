"""Shards of real or made-up text for the modes of cutting, and what they say when asked."""

import numpy as np

from jax_lm.preprocessing.cutting.base import Cutting, FeatureRows
from jax_lm.preprocessing.cutting.modes import MODES
from jax_lm.preprocessing.manifest import SpecialIds
from jax_lm.preprocessing.tokenized import tokenize
from tests.preprocessing.preprocessing_fakes import EOS, ByteTokenizer

BOS = 257
PAD = 7


def special_ids(bos=BOS, eos=EOS, pad=PAD, separator=EOS):
    return SpecialIds(bos=bos, eos=eos, pad=pad, separator=separator, all=(256, 257))


def cut(mode, *documents, length, special=None, tokenizer=None, find=None, **settings):
    """The feature rows of a shard of these documents."""
    tokenized = tokenize(documents, tokenizer or ByteTokenizer(), sentence_ends=find)
    cutting = Cutting(
        mode=mode, sequence_length=length, special=special or special_ids(), **settings
    )
    return MODES[mode](tokenized, cutting)


def whole_rows(features: FeatureRows):
    """Each row as its ids with the last label, and which of them are scored."""
    rows = features.rows
    found = []
    for ids, labels, size in zip(rows.input_ids, rows.labels, rows.lengths, strict=True):
        row = ids[:size].tolist()
        scored = [False, *(labels[:size] != -100).tolist()]
        if scored[-1]:
            found.append(([*row, int(labels[size - 1])], scored))
        else:
            found.append((row, scored[:-1]))
    return found


def lists(features: FeatureRows):
    """Columns of the rows as lists: input_ids, attention_mask, labels."""
    rows = features.rows
    mask = features.attention_mask
    if mask is None:
        mask = (np.arange(rows.input_ids.shape[1]) < rows.lengths[:, None]).astype(int)
    return [column.tolist() for column in (rows.input_ids, mask, rows.labels)]

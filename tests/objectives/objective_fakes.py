"""A small vocabulary with every special token that an objective may ask for, and rows of it."""

import numpy as np

from jax_lm.objectives.base import RowDraws
from jax_lm.objectives.registry import make_objective
from jax_lm.types import Rows

NAMES = ("<s>", "<pad>", "</s>", "<unk>", "<mask>", "<sys>", "<usr>")
BOS, PAD, EOS, UNK, MASK, SYS, USR = range(7)
SENTINELS = 20
START = EOS
"""What decoders of encoder-decoders begin with."""


class SpecialTokenizer:
    """Ids 0 to 6 are special, the last twenty are sentinels, those between spell text."""

    bos_id, pad_id, eos_id, mask_id = BOS, PAD, EOS, MASK

    def __init__(self, vocab_size=400, names=NAMES, sentinels=SENTINELS):
        self.vocab_size = vocab_size
        self._names = dict(enumerate(names))
        for number in range(sentinels):
            self._names[vocab_size - 1 - number] = f"<extra_id_{number}>"
        self.special_ids = frozenset(self._names)

    def without(self, *parts: str) -> "SpecialTokenizer":
        """The same without what plays these parts, such as ``mask_id``."""
        other = SpecialTokenizer()
        other.__dict__.update(self.__dict__, **dict.fromkeys(parts))
        return other

    def token_text(self, token_id: int) -> str:
        return self._names.get(token_id, str(token_id))


TOKENIZER = SpecialTokenizer()
FIRST, LAST = len(NAMES), TOKENIZER.vocab_size - SENTINELS
"""Ordinary ids are those from FIRST up to LAST."""


def sentinel(number: int) -> int:
    return TOKENIZER.vocab_size - 1 - number


def objective(config, kind, length, tokenizer=TOKENIZER, **more):
    start = START if kind == "encoder-decoder" else None
    given = {"kind": kind, "input_length": length, "decoder_start_id": start, **more}
    return make_objective(config, tokenizer, **given)


def draws(count: int, seed: int = 0, first: int = 0) -> RowDraws:
    return RowDraws(seed, np.arange(first, first + count))


def distinct_rows(count: int, width: int, seed: int = 0, special=(), ends=None) -> Rows:
    """Rows of ordinary ids, none twice in a row, with EOS at some places; the last is half full."""
    random = np.random.default_rng(seed)
    ids = np.stack([FIRST + random.permutation(LAST - FIRST)[:width] for _ in range(count)])
    ids[:, list(special)] = EOS
    lengths = np.full(count, width, np.int32)
    lengths[-1] = width // 2
    ids[-1, width // 2 :] = PAD
    if ends is not None:
        ends = np.tile(np.array(ends, np.int32), (count, 1))
        ends[ends > lengths[:, None]] = -1
    return Rows(ids.astype(np.uint16), lengths, sentence_ends=ends)


def distinct_pairs(count: int, width_in: int, width_out: int, seed: int = 0) -> Rows:
    """Pairs of all lengths, no ordinary id twice in a pair; outputs are closed where they fit."""
    random = np.random.default_rng(seed)
    ids = distinct_rows(count + 1, width_in + width_out, seed).input_ids[:count]
    sizes_in = random.integers(1, width_in + 1, count)
    sizes_out = random.integers(1, width_out + 1, count)
    inputs, outputs = ids[:, :width_in].copy(), ids[:, width_in:].copy()
    outputs[np.arange(count), sizes_out - 1] = EOS
    inputs[np.arange(width_in) >= sizes_in[:, None]] = PAD
    outputs[np.arange(width_out) >= sizes_out[:, None]] = PAD
    return Rows(inputs, sizes_in, target_ids=outputs, target_lengths=sizes_out)

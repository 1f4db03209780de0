from itertools import pairwise

import numpy as np
import pytest

from jax_lm.errors import JaxLMError
from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe
from jax_lm.tokenizers.segments import encode_segments
from jax_lm.types import Segment

EOS = "<|endoftext|>"
TOKENIZER = train_byte_level_bpe(["the cat sat. " * 9], vocab_size=280)


def test_text_markup_and_ready_ids_in_order() -> None:
    segments = [
        Segment(f"the {EOS}"),
        Segment(EOS, markup=True),
        Segment("", ids=np.array([5, 6])),
        Segment(" cat"),
    ]
    ids, offsets, num_bytes = encode_segments(segments, TOKENIZER)
    parts = [ids[a:b].tolist() for a, b in pairwise(offsets)]
    assert parts[1:3] == [[0], [5, 6]]
    assert 0 not in parts[0]
    assert TOKENIZER.decode(parts[0]) == f"the {EOS}"
    assert num_bytes.sum() == len(f"the {EOS}") + 0 + 2 + len(" cat")
    everywhere = encode_segments(segments, TOKENIZER, parse_special=True)
    assert everywhere.ids.tolist().count(0) == 2


def test_plain_text_alone_is_encoded_at_once() -> None:
    segments = [Segment("the"), Segment(""), Segment(" cat", 0.0)]
    encoded = encode_segments(segments, TOKENIZER)
    expected = TOKENIZER.encode_batch(["the", "", " cat"])
    assert all(map(np.array_equal, encoded, expected))


@pytest.mark.parametrize("bad", [-1, 280])
def test_ready_ids_of_another_tokenizer(bad: int) -> None:
    with pytest.raises(JaxLMError, match=f"ready-made id {bad} is outside"):
        encode_segments([Segment("", ids=np.array([1, bad]))], TOKENIZER)


def test_an_encoder_that_cuts_changed_text_otherwise_is_found_out() -> None:
    from jax_lm.tokenizers.encoders.base import Ids
    from jax_lm.tokenizers.training import TrainingSettings, train_tokenizer

    pytest.importorskip("sentencepiece")
    settings = TrainingSettings(kind="sentencepiece-unigram", vocab_size=12)
    tokenizer = train_tokenizer(["the cat sat. " * 9], settings)
    wrong = Ids(np.array([3], np.int32), np.array([0, 1]))
    with pytest.raises(JaxLMError, match="otherwise than the encoder that was chosen"):
        tokenizer._byte_counts[False].of(["the   cat"], wrong)

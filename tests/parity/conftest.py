"""A tokenizer small enough for tiny models, trained on the spot."""

import pytest

from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe
from jax_lm.tokenizers.pretrained import PretrainedTokenizer

TEXT = "Å være eller ikke være, det er spørsmålet. To be, or not to be: 없다, def main(): pass\n"


@pytest.fixture(scope="session")
def tokenizer() -> PretrainedTokenizer:
    return train_byte_level_bpe([TEXT] * 4, vocab_size=280)

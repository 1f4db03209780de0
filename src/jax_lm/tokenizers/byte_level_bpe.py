"""Learn a byte-level BPE, as GPT-2's: every text can be spelled, and is read back exactly."""

import sys
from collections.abc import Iterable, Sequence

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from jax_lm.errors import JaxLMError
from jax_lm.tokenizers.corpus import CountedTexts
from jax_lm.tokenizers.pretrained import PretrainedTokenizer
from jax_lm.tokenizers.special import END_OF_TEXT, SpecialTokens, check_special_tokens

NUM_BYTES = 256


def train_byte_level_bpe(
    texts: Iterable[str],
    *,
    vocab_size: int,
    min_frequency: int = 2,
    special_tokens: Sequence[str] = (END_OF_TEXT,),
) -> PretrainedTokenizer:
    """Merge the pairs that are most frequent until the vocabulary is full.

    Args:
        texts: what to learn from, read once.
        vocab_size: ids wanted, special ones and the 256 bytes included; a small corpus gives fewer.
        min_frequency: a pair seen less often is not merged.
        special_tokens: take the first ids, in this order.

    Raises:
        JaxLMError: no text, a vocabulary too small, or a special token like ordinary text.
    """
    check_special_tokens(special_tokens)
    smallest = NUM_BYTES + len(special_tokens)
    if vocab_size < smallest:
        raise JaxLMError(
            f"--vocab-size {vocab_size} is too small: {NUM_BYTES} bytes and the special tokens "
            f"need {smallest} or more"
        )
    library = tokenizers.Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=list(special_tokens),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=sys.stderr.isatty(),
    )
    counted = CountedTexts(texts)
    library.train_from_iterator(iter(counted), trainer)
    counted.refuse_if_empty()
    return PretrainedTokenizer(library.to_str(), SpecialTokens.by_convention(special_tokens))

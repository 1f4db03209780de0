"""A vocabulary of single characters: the smallest that a small corpus needs."""

from collections.abc import Iterable, Sequence

import tokenizers
from tokenizers import Regex, decoders, models, pre_tokenizers

from jax_lm.tokenizers.corpus import CountedTexts
from jax_lm.tokenizers.description import EACH_CHARACTER
from jax_lm.tokenizers.pretrained import PretrainedTokenizer
from jax_lm.tokenizers.special import SpecialTokens, check_special_tokens


def train_characters(
    texts: Iterable[str], *, special_tokens: Sequence[str] = ()
) -> PretrainedTokenizer:
    r"""Give an id to every character (code point) of the texts, in the order of code points.

    A combining mark is a character of its own, and so are ``\r`` and ``\n``.

    Args:
        texts: what to learn from, read once.
        special_tokens: take the first ids, in this order.

    Raises:
        JaxLMError: no text, or a special token like ordinary text.
    """
    check_special_tokens(special_tokens)
    counted = CountedTexts(texts)
    characters: set[str] = set()
    for text in counted:
        characters.update(text)
    counted.refuse_if_empty()
    tokens = [*special_tokens, *sorted(characters)]
    library = tokenizers.Tokenizer(models.WordLevel({token: i for i, token in enumerate(tokens)}))
    library.pre_tokenizer = pre_tokenizers.Split(Regex(EACH_CHARACTER), "isolated")
    library.decoder = decoders.Fuse()
    library.add_special_tokens(list(special_tokens))
    return PretrainedTokenizer(library.to_str(), SpecialTokens.by_convention(special_tokens))

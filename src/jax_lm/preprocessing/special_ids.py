"""Which ids separate documents and fill padding."""

import difflib
from contextlib import suppress

from jax_lm.errors import JaxLMError
from jax_lm.preprocessing.manifest import SpecialIds
from jax_lm.tokenizers.base import Tokenizer, special_names


def choose_special_ids(
    tokenizer: Tokenizer, separator_token: str | None, pad: int | None = None
) -> SpecialIds:
    """Separator: the token asked for, else EOS, else the only special id; pad: pad, EOS or 0.

    Args:
        tokenizer: whose ids.
        separator_token: what to put between documents, as the tokenizer writes it.
        pad: the id to pad with, whatever the tokenizer has.

    Raises:
        JaxLMError: ``separator_token`` is not one token of the vocabulary.
    """
    special = sorted(tokenizer.special_ids)
    separator = tokenizer.eos_id
    if separator_token is not None:
        separator = _id_of(tokenizer, separator_token)
    elif separator is None and len(special) == 1:
        separator = special[0]
    pads = (pad, tokenizer.pad_id, tokenizer.eos_id, 0)
    return SpecialIds(
        bos=tokenizer.bos_id,
        eos=tokenizer.eos_id,
        pad=next(token_id for token_id in pads if token_id is not None),
        separator=separator,
        all=tuple(special),
    )


def _id_of(tokenizer: Tokenizer, token: str) -> int:
    names = special_names(tokenizer)
    if token in names:
        return names[token]
    ids: list[int] = []
    with suppress(JaxLMError):  # a character that the vocabulary cannot spell
        ids = tokenizer.encode_batch([token]).ids.tolist()
    if len(ids) == 1:
        return ids[0]
    close = difflib.get_close_matches(token, list(names), n=1, cutoff=0.4)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    known = ", ".join(sorted(names)) or "none"
    raise JaxLMError(
        f"--separator-token {token!r} is not one token of this tokenizer, "
        f"whose special tokens are: {known}{meant}"
    )

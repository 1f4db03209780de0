"""What an encoder-decoder's outputs begin with, where its configuration says it."""

from jax_lm.errors import UsageError
from jax_lm.models.base import TokenIds


def refuse_ordinary_start(start_id: int | None, ids: TokenIds) -> None:
    """Refuse a start id that came from elsewhere and is a word of the tokenizer.

    A tokenizer without special tokens has nothing but words: then any id will do.

    Raises:
        UsageError: the id is none of the tokenizer's special tokens.
    """
    named = {"padding": ids.pad, "beginning of text": ids.bos, "end of text": ids.eos}
    special = {name: one for name, one in named.items() if one is not None}
    if start_id is None or not special or start_id in special.values():
        return
    listed = ", ".join(f"{one} ({name})" for name, one in special.items())
    raise UsageError(
        f"decoder_start_id is {start_id}, an ordinary token of this tokenizer: give one of its "
        f"special tokens, {listed}, as --model.decoder-start-id"
    )

"""A tokenizer as a person sees it: its vocabulary, and how it cuts a text."""

from collections.abc import Iterator, Sequence

import numpy as np

from jax_lm.tokenizers.base import Tokenizer

BETWEEN_TOKENS = "│"
LONGEST = 12


def tokenizer_lines(tokenizer: Tokenizer, text: str | None, with_ids: bool) -> Iterator[str]:
    """How a text is cut, or the vocabulary where there is no text."""
    if text is None:
        return vocabulary_lines(tokenizer)
    return cut_lines(tokenizer, text, with_ids)


def vocabulary_lines(tokenizer: Tokenizer) -> Iterator[str]:
    """Size, special tokens, and the length of tokens."""
    lengths = tokenizer.token_byte_lengths()
    spelled = lengths[lengths > 0]
    specials = [f"{tokenizer.token_text(i)} ({i})" for i in sorted(tokenizer.special_ids)]
    yield _row("vocabulary", f"{tokenizer.vocab_size:,} tokens")
    yield _row("special tokens", ", ".join(specials) or "none")
    parts = {"bos": tokenizer.bos_id, "eos": tokenizer.eos_id, "pad": tokenizer.pad_id}
    yield _row("", ", ".join(f"{part} {_or_none(token_id)}" for part, token_id in parts.items()))
    if len(spelled):
        median, mean = np.median(spelled), spelled.mean()
        yield _row("bytes per token", f"median {median:.0f}, mean {mean:.2f} (each token once)")
    yield _row("longest tokens", "  ".join(longest_tokens(tokenizer)))
    yield _row("fingerprint", tokenizer.fingerprint()[:16])


def longest_tokens(tokenizer: Tokenizer, count: int = LONGEST) -> list[str]:
    """The tokens that spell the most bytes, longest first, quoted."""
    lengths = tokenizer.token_byte_lengths()
    order = np.argsort(-lengths, kind="stable")[:count]
    return [f"'{tokenizer.token_text(i)}'" for i in order.tolist() if lengths[i] > 0]


def cut_lines(tokenizer: Tokenizer, text: str, with_ids: bool) -> Iterator[str]:
    """How a text is cut: on one line, or a line a token with its id and bytes."""
    ids = tokenizer.encode_batch([text]).ids.tolist()
    lengths = tokenizer.token_byte_lengths()
    if with_ids:
        yield f"{'id':>7}  {'bytes':>5}  token"
        yield from (f"{i:>7}  {lengths[i]:>5}  '{tokenizer.token_text(i)}'" for i in ids)
    else:
        yield BETWEEN_TOKENS.join(map(tokenizer.token_text, ids))
    yield cut_summary(tokenizer, [text])


def cut_summary(tokenizer: Tokenizer, texts: Sequence[str]) -> str:
    """How many bytes a token of these texts spells on average."""
    tokens = len(tokenizer.encode_batch(texts).ids)
    num_bytes = sum(len(text.encode("utf-8")) for text in texts)
    ratio = f": {num_bytes / tokens:.2f} bytes per token" if tokens else ""
    return f"{tokens:,} tokens, {num_bytes:,} bytes{ratio}"


def _or_none(token_id: int | None) -> str:
    return "none" if token_id is None else str(token_id)


def _row(label: str, value: str) -> str:
    return f"{label:<17}{value}"

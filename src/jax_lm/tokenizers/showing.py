"""A tokenizer as a person sees it: its vocabulary, and how it cuts a text."""

from collections.abc import Iterator, Sequence

import numpy as np

from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.encoders.choosing import choose_engine
from jax_lm.tokenizers.pretrained import PretrainedTokenizer

BETWEEN_TOKENS = "│"
LONGEST = 12
SPECIALS = 24


def tokenizer_lines(tokenizer: PretrainedTokenizer) -> Iterator[str]:
    """The vocabulary, and the program that would encode by it."""
    yield from vocabulary_lines(tokenizer)
    yield _row("encoder", choose_engine(tokenizer, ()).sentence().removeprefix("encoding with "))


def vocabulary_lines(tokenizer: PretrainedTokenizer) -> Iterator[str]:
    """Kind, size, special tokens, and the length of tokens."""
    lengths = tokenizer.token_byte_lengths()
    spelled = lengths[lengths > 0]
    specials = [f"{tokenizer.token_text(i)} ({i})" for i in sorted(tokenizer.special_ids)]
    if len(specials) > SPECIALS:
        specials = [*specials[: SPECIALS - 1], f"... {specials[-1]}, {len(specials):,} in all"]
    yield _row("kind", tokenizer.kind)
    yield _row("vocabulary", f"{tokenizer.vocab_size:,} tokens")
    yield _row("special tokens", ", ".join(specials) or "none")
    parts = {"bos": tokenizer.bos_id, "eos": tokenizer.eos_id, "pad": tokenizer.pad_id}
    if tokenizer.unk_id is not None:
        parts["unk"] = tokenizer.unk_id
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
    encoded = tokenizer.encode_batch([text])
    ids, lengths = encoded.ids.tolist(), encoded.num_bytes.tolist()
    if with_ids:
        yield f"{'id':>7}  {'bytes':>5}  token"
        for token_id, length in zip(ids, lengths, strict=True):
            yield f"{token_id:>7}  {length:>5}  '{tokenizer.token_text(token_id)}'"
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

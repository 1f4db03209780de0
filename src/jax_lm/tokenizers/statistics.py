"""How a tokenizer cuts a corpus: token statistics, as figures and as lines to read."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise

import numpy as np
from jaxtyping import Int

from jax_lm.tokenizers.base import Encoded
from jax_lm.tokenizers.pretrained import PretrainedTokenizer

BATCH = 256
LISTED = 10
BAR = 40


@dataclass(kw_only=True)
class TokenStatistics:
    """Sums over the texts of a corpus."""

    counts: Int[np.ndarray, "vocab"]
    """How often each id came."""
    lengths: list[int] = field(default_factory=list)
    """Tokens of each text."""
    num_bytes: int = 0
    """UTF-8 bytes of the texts."""
    unknown_bytes: int = 0
    """Bytes of characters that the vocabulary has no token for."""
    changed: list[str] = field(default_factory=list)
    """The first texts that decoding does not give back exactly."""
    num_changed: int = 0

    @property
    def num_tokens(self) -> int:
        """Tokens of all texts."""
        return int(self.counts.sum())


def count_tokens(tokenizer: PretrainedTokenizer, texts: Iterable[str]) -> TokenStatistics:
    """Encode and decode every text.

    Raises:
        JaxLMError: a text cannot be spelled, or is not Unicode.
    """
    found = TokenStatistics(counts=np.zeros(tokenizer.vocab_size, np.int64))
    unknown = tokenizer.unk_id
    remaining = iter(texts)
    while batch := list(islice(remaining, BATCH)):
        encoded = tokenizer.encode_batch(batch)
        found.counts += np.bincount(encoded.ids, minlength=tokenizer.vocab_size)
        found.lengths += np.diff(encoded.offsets).tolist()
        found.num_bytes += sum(len(text.encode("utf-8")) for text in batch)
        if unknown is not None:
            found.unknown_bytes += int(encoded.num_bytes[encoded.ids == unknown].sum())
        _compare(tokenizer, batch, encoded, found)
    return found


def _compare(
    tokenizer: PretrainedTokenizer, texts: list[str], encoded: Encoded, found: TokenStatistics
) -> None:
    for text, (start, stop) in zip(texts, pairwise(encoded.offsets.tolist()), strict=True):
        if tokenizer.decode(encoded.ids[start:stop].tolist()) != text:
            found.num_changed += 1
            if len(found.changed) < LISTED:
                found.changed.append(text)


def statistics_lines(tokenizer: PretrainedTokenizer, found: TokenStatistics) -> Iterator[str]:
    """The statistics as a person reads them."""
    texts, tokens = len(found.lengths), found.num_tokens
    yield _row("documents", f"{texts:,} with {found.num_bytes:,} UTF-8 bytes")
    if not tokens:
        yield _row("tokens", "none: the documents have no text")
        return
    yield _row("tokens", f"{tokens:,}, {found.num_bytes / tokens:.2f} bytes each")
    used = np.count_nonzero(found.counts)
    share = 100 * used / tokenizer.vocab_size
    yield _row("vocabulary used", f"{used:,} of {tokenizer.vocab_size:,} tokens ({share:.1f} %)")
    yield _row("unknown", _unknown(tokenizer, found))
    yield _row("most frequent", "  ".join(_frequent(tokenizer, found, most=True)))
    yield _row("least frequent", "  ".join(_frequent(tokenizer, found, most=False)))
    yield _row("round trip", _round_trip(texts, found))
    yield "tokens per document"
    yield from histogram_lines(found.lengths)


def histogram_lines(lengths: list[int]) -> Iterator[str]:
    """How many texts have how many tokens, in ranges that double; then quantiles."""
    values = np.array(lengths)
    edges = [0, 1, *(2**power for power in range(1, int(values.max()).bit_length() + 1))]
    counts, _ = np.histogram(values, [*edges, edges[-1] + 1])
    for low, high, count in zip(edges, edges[1:], counts.tolist(), strict=False):
        if count:
            bar = "█" * max(1, round(BAR * count / counts.max()))
            span = f"{low:,}" if high - low == 1 else f"{low:,} to {high - 1:,}"
            yield f"  {span:>20} {count:>10,} {100 * count / len(values):5.1f} %  {bar}"
    marks = np.percentile(values, [0, 50, 95, 100])
    names = ("shortest", "median", "95th percentile", "longest")
    yield f"  mean {values.mean():,.1f}, " + ", ".join(
        f"{name} {mark:,.0f}" for name, mark in zip(names, marks, strict=True)
    )


def _unknown(tokenizer: PretrainedTokenizer, found: TokenStatistics) -> str:
    unknown = tokenizer.unk_id
    count = 0 if unknown is None else int(found.counts[unknown])
    if not count:
        return "none"
    rate = 100 * count / found.num_tokens
    return f"{count:,} tokens ({rate:.3f} %) stand for {found.unknown_bytes:,} bytes"


def _frequent(
    tokenizer: PretrainedTokenizer, found: TokenStatistics, *, most: bool
) -> Iterator[str]:
    order = np.argsort(-found.counts if most else found.counts, kind="stable")
    seen = order[found.counts[order] > 0][:LISTED]
    for token_id in seen.tolist():
        yield f"'{tokenizer.token_text(token_id)}' {found.counts[token_id]:,}"


def _round_trip(texts: int, found: TokenStatistics) -> str:
    if not found.num_changed:
        return "every document comes back exactly"
    first = found.changed[0][:40]
    return f"{found.num_changed:,} of {texts:,} documents come back changed, the first {first!r}"


def _row(label: str, value: str) -> str:
    return f"{label:<17}{value}"

"""One feature row as a person reads it: its text, shaded by what is scored."""

from collections.abc import Mapping
from itertools import groupby
from typing import Any

import numpy as np

from jax_lm.preprocessing.cutting.base import IGNORED_LABEL
from jax_lm.preprocessing.features import open_features, read_row
from jax_lm.preprocessing.manifest import Manifest, tokenizer_directory
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.pretrained import load_tokenizer

DIM, STRONG, PLAIN = "\x1b[2m", "\x1b[1;36m", "\x1b[0m"
BORDER = "┃"
"""Between the segments of a row."""
OUTPUT = "\n→ "
"""Between input and output, where they are apart."""


def show_set_row(prefix: str, index: int, *, color: bool) -> list[str]:
    """Row ``index`` of a set, counted over all its files, as ``show_row`` tells it.

    Raises:
        JaxLMError: the set is not there or not whole, or has no such row.
    """
    manifest = open_features(prefix)
    tokenizer = load_tokenizer(tokenizer_directory(prefix))
    return show_row(read_row(prefix, manifest, index), manifest, tokenizer, color=color)


def show_row(
    row: Mapping[str, Any], manifest: Manifest, tokenizer: Tokenizer, *, color: bool
) -> list[str]:
    """The text of a row, then its counts.

    Tokens that are not scored are dim, or stand in ⟦ ⟧ without color; special tokens and
    separators, which show where documents begin, stand in ‹ ›. A ┃ stands where another segment
    begins, an arrow before the output of a pair.
    """
    ids, weights = row_tokens(row)
    if manifest.target_kind == "drawn":
        weights = np.ones(len(ids))
    segments = _segments(row, len(ids))
    spans = zip(weights > 0, segments, strict=True)
    text, before, start = "", 0, 0
    for (scored, segment), group in groupby(spans):
        stop = start + len(list(group))
        text += _mark(before, segment, row)
        text += _shade(_spell(ids[start:stop], manifest, tokenizer, color), scored, color)
        before, start = segment, stop
    lines = [text, "", _counts(row, ids, weights)]
    if not set(weights) <= {0.0, 1.0}:
        values, counts = np.unique(weights, return_counts=True)
        pairs = zip(values, counts, strict=True)
        lines.append("weights: " + ", ".join(f"{value:g} on {count}" for value, count in pairs))
    if manifest.mode == "packed" and manifest.special_ids.separator is None:
        lines.append("no separator token: where documents begin is not recorded")
    return lines


def _counts(row: Mapping[str, Any], ids: np.ndarray, weights: np.ndarray) -> str:
    masks = [row[name] for name in ("attention_mask", "target_mask") if name in row]
    padding = sum(len(mask) - _length(mask) for mask in masks)
    sentences = f", {len(row['sentence_ends'])} sentences" if "sentence_ends" in row else ""
    subset = f", subset {row['subset']}" if row["subset"] else ""
    return (
        f"{len(ids)} tokens, {int((weights > 0).sum())} scored, {padding} padding, "
        f"{row['num_bytes']} bytes spelled by the scored{sentences}{subset}"
    )


def row_tokens(row: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Ids of a row, a label past its end included, and the weight of each as a target."""
    ids = row["input_ids"][: _length(row["attention_mask"])]
    if "target_ids" in row:
        targets = row["target_ids"][: _length(row["target_mask"])]
        weights = np.repeat([0.0, 1.0], [len(ids), len(targets)])
        return np.concatenate([ids, targets]), weights
    if "labels" not in row:
        return ids, np.concatenate([[0.0], np.ones(len(ids) - 1)])
    labels = row["labels"][: len(ids)]
    weights = row.get("loss_weights", (row["labels"] != IGNORED_LABEL).astype(float))[: len(ids)]
    weights = np.concatenate([[0.0], weights])
    if labels[-1] == IGNORED_LABEL:
        return ids, weights[:-1]
    return np.append(ids, labels[-1]), weights


def _length(mask: np.ndarray) -> int:
    """Places up to the last that the mask lets see."""
    return int(np.flatnonzero(mask).max(initial=-1)) + 1


def _segments(row: Mapping[str, Any], length: int) -> np.ndarray:
    """Number of the part that each token belongs to: its document, or input and output."""
    if "target_ids" in row:
        inputs = _length(row["attention_mask"])
        return np.repeat([1, 2], [inputs, length - inputs])
    segments = row.get("segment_ids", np.ones(length, int))[:length]
    # A label past the end of the row is taken to be of the last one's document.
    return np.append(segments, segments[-1:]) if len(segments) < length else segments


def _mark(before: int, segment: int, row: Mapping[str, Any]) -> str:
    if before in (0, segment):
        return ""
    return OUTPUT if "target_ids" in row else BORDER


def _spell(ids: np.ndarray, manifest: Manifest, tokenizer: Tokenizer, color: bool) -> str:
    special = {*manifest.special_ids.all, manifest.special_ids.separator}
    text = ""
    for apart, group in groupby(ids.tolist(), special.__contains__):
        if not apart:
            text += tokenizer.decode(list(group))
            continue
        for token_id in group:
            name = f"‹{tokenizer.token_text(token_id)}›"
            text += f"{STRONG}{name}{PLAIN}" if color else name
    return text


def _shade(text: str, scored: bool, color: bool) -> str:
    if scored:
        return text
    # What stands apart inside switches everything off at its end.
    return f"{DIM}{text.replace(PLAIN, PLAIN + DIM)}{PLAIN}" if color else f"⟦{text}⟧"

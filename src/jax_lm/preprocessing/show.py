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
    separators, which show where documents begin, stand in ‹ ›.
    """
    ids, weights = row_tokens(row)
    scored = weights > 0
    text = "".join(
        _shade(_spell([int(ids[place]) for place in places], manifest, tokenizer, color), on, color)
        for on, places in (
            (on, list(group)) for on, group in groupby(range(len(ids)), scored.__getitem__)
        )
    )
    subset = f", subset {row['subset']}" if row["subset"] else ""
    padding = int(len(row["attention_mask"]) - row["attention_mask"].sum())
    lines = [
        text,
        "",
        f"{len(ids)} tokens, {int(scored.sum())} scored, {padding} padding, "
        f"{row['num_bytes']} bytes spelled by the scored{subset}",
    ]
    if not set(weights) <= {0.0, 1.0}:
        values, counts = np.unique(weights, return_counts=True)
        pairs = zip(values, counts, strict=True)
        lines.append("weights: " + ", ".join(f"{value:g} on {count}" for value, count in pairs))
    if manifest.special_ids.separator is None:
        lines.append("no separator token: where documents begin is not recorded")
    return lines


def row_tokens(row: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Ids of a row, a label past its end included, and the weight of each as a target."""
    ids = row["input_ids"][row["attention_mask"] == 1]
    if "labels" not in row:
        return ids, np.concatenate([[0.0], np.ones(len(ids) - 1)])
    labels = row["labels"][: len(ids)]
    weights = row.get("loss_weights", (row["labels"] != IGNORED_LABEL).astype(float))[: len(ids)]
    weights = np.concatenate([[0.0], weights])
    if labels[-1] == IGNORED_LABEL:
        return ids, weights[:-1]
    return np.append(ids, labels[-1]), weights


def _spell(ids: list[int], manifest: Manifest, tokenizer: Tokenizer, color: bool) -> str:
    special = {*manifest.special_ids.all, manifest.special_ids.separator}
    text = ""
    for apart, group in groupby(ids, special.__contains__):
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
    return f"{DIM}{text}{PLAIN}" if color else f"⟦{text}⟧"

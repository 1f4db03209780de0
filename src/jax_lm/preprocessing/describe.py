"""A feature set in words: what ``preprocess`` and ``features info`` print."""

from pathlib import Path

from jax_lm.preprocessing.features import open_features
from jax_lm.preprocessing.manifest import Manifest, rejected_path, tokenizer_directory
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.pretrained import load_tokenizer

KINDS_IN_WORDS = {
    "shift": "the next token of each position (input_ids hold T + 1 ids)",
    "labels": "labels (-100 where not scored)",
    "weights": "labels and loss_weights",
    "drawn": "drawn by the objective when rows are read",
    "pairs": "target_ids, apart from input_ids",
}


def describe_set(prefix: str) -> list[str]:
    """All that the manifest of a set says, as aligned lines.

    Raises:
        JaxLMError: the set is not there, or not whole.
    """
    manifest = open_features(prefix)
    tokenizer = load_tokenizer(tokenizer_directory(prefix))
    return [*describe(prefix, manifest, tokenizer), *details(manifest)]


def describe(prefix: str, manifest: Manifest, tokenizer: Tokenizer) -> list[str]:
    """Aligned lines with the numbers that people ask for."""
    totals = manifest.totals
    tokens = sum(part.tokens for part in manifest.subsets.values())
    spelled = sum(part.text_bytes for part in manifest.subsets.values())
    sizes = [_size(Path(prefix).parent / entry.name) for entry in manifest.files]
    positions = max(totals.rows * manifest.row_length, 1)
    pairs = [
        ("documents", f"{totals.documents:,} ({totals.text_bytes:,} bytes) of {manifest.source}"),
        ("tokens", f"{totals.tokens:,} in the rows; {_ratio(spelled, tokens)} bytes each"),
        (
            "rows",
            f"{totals.rows:,} of {manifest.row_length} ids, mode {manifest.mode}, "
            f"{100 * totals.padding / positions:.2f} % padding",
        ),
        ("targets", f"{totals.targets:,}, {KINDS_IN_WORDS[manifest.target_kind]}"),
        ("bytes", f"{totals.num_bytes:,} spelled by the targets"),
        ("separator", _token(manifest.special_ids.separator, tokenizer)),
        ("padding", _token(manifest.special_ids.pad, tokenizer)),
        ("files", f"{len(sizes)}, {sum(sizes):,} bytes: {_names(manifest)}"),
        ("tokenizer", f"{tokenizer_directory(prefix)} (encoded by {manifest.engine})"),
    ]
    if manifest.dropped:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in manifest.dropped.items())
        pairs.append(("left out", reasons))
    if totals.cut_off:
        pairs.append(("cut off", f"{totals.cut_off:,} tokens that no row holds"))
    if totals.rejected:
        pairs.append(("rejected", f"{totals.rejected:,} records: {rejected_path(prefix)}"))
    if totals.spelled_bytes != totals.text_bytes:
        pairs.append(
            (
                "warning",
                f"the tokens spell {totals.spelled_bytes:,} bytes, the text has "
                f"{totals.text_bytes:,}: this tokenizer changes the text",
            )
        )
    return [*aligned(pairs), *_subset_table(manifest)]


def _subset_table(manifest: Manifest) -> list[str]:
    """A line a subset, where there are any."""
    if set(manifest.subsets) <= {""}:
        return []
    width = max(len("subset"), *(len(name) for name in manifest.subsets)) + 2
    header = f"{'subset':<{width}}{'documents':>12}{'tokens':>15}{'bytes a token':>15}{'rows':>11}"
    return ["", header] + [
        f"{name or '(none)':<{width}}{part.documents:>12,}{part.tokens:>15,}"
        f"{_ratio(part.text_bytes, part.tokens):>15}{part.rows:>11,}"
        for name, part in manifest.subsets.items()
    ]


def details(manifest: Manifest) -> list[str]:
    """The rest of the manifest: fingerprints, settings, special ids, columns and files."""
    special = manifest.special_ids
    pairs = [
        ("T", str(manifest.sequence_length)),
        ("vocabulary", f"{manifest.vocab_size:,} ids"),
        ("special", f"bos {special.bos}, eos {special.eos}, all {list(special.all)}"),
        ("columns", ", ".join(f"{name} {kind}" for name, kind in manifest.columns.items())),
        ("settings", ", ".join(f"{key} {value}" for key, value in manifest.settings.items())),
        ("cut by", manifest.tokenizer_fingerprint),
        ("source", manifest.source_fingerprint),
        ("format", f"version {manifest.format_version}"),
    ]
    lines = [*aligned(pairs), ""]
    width = max(len(entry.name) for entry in manifest.files)
    header = f"{'file':<{width}}{'rows':>11}{'tokens':>15}{'bytes':>16}{'documents':>12}  sha256"
    return [*lines, header] + [
        f"{entry.name:<{width}}{entry.rows:>11,}{entry.tokens:>15,}{entry.num_bytes:>16,}"
        f"{entry.documents:>12,}  {entry.sha256}"
        for entry in manifest.files
    ]


def aligned(pairs: list[tuple[str, str]]) -> list[str]:
    """``name  value`` lines with the values in one column."""
    return [f"{name:<12}{value}" for name, value in pairs]


def _token(token_id: int | None, tokenizer: Tokenizer) -> str:
    if token_id is None:
        return "none: documents follow each other directly"
    role = ", EOS" if token_id == tokenizer.eos_id else ""
    return f"{tokenizer.token_text(token_id)!r} (id {token_id}{role})"


def _names(manifest: Manifest) -> str:
    first, last = manifest.files[0].name, manifest.files[-1].name
    return first if first == last else f"{first} ... {last}"


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _ratio(numerator: int, denominator: int) -> str:
    return f"{numerator / max(denominator, 1):.2f}"

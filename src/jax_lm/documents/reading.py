"""What every reader of documents may ask for: how files are read and which documents are kept."""

from dataclasses import dataclass
from typing import Literal

from jax_lm.errors import UsageError

PERCENT = 100


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How documents are read, rendered, cleaned and chosen, in this order."""

    lines: bool = False
    """Each line of a .txt file is a document; default: each file is."""
    on_bad_record: Literal["stop", "skip"] = "stop"
    """Stop at a malformed record, or skip and count it."""
    chat_template: str | None = None
    """How conversations become text: chatml, dsgpt2, vicuna, plain, a jinja file or a tokenizer
    directory; default: the tokenizer's own where there is one, else plain."""
    weights: tuple[float, ...] = ()
    """Mix the SPECs, one number each, instead of reading one after another."""
    mixture_seed: int = 0
    """Decides the order of a mixture."""
    subsets: str | None = None
    """Keep these subsets alone, as in A,B."""
    exclude_subsets: str | None = None
    """Leave these subsets out, as in A,B."""
    normalize: Literal["none", "NFC", "NFD", "NFKC", "NFKD"] = "none"
    """Unicode normalization form of the text."""
    remove_urls: bool = False
    """Take web addresses out of the text."""
    allowed_characters: str | None = None
    """Keep these characters alone, named as in ascii,hangul,emoji, or a regular expression's
    character class such as [a-zA-Z ]."""
    min_characters: int | None = None
    """Leave out shorter documents."""
    max_characters: int | None = None
    """Leave out longer documents."""
    split: Literal["all", "train", "held-out"] = "all"
    """Which side of the split by document hash to read."""
    held_out_percent: float = 1.0
    """Share of documents that the split holds out, chosen by a hash of their text."""
    max_documents: int | None = None
    """Read no more than the first so many documents."""

    def __post_init__(self) -> None:
        """Refuse numbers that leave nothing."""
        for name in ("max_documents", "min_characters", "max_characters"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"--{name.replace('_', '-')} is {value}, expected 1 or more")
        if not 0 < self.held_out_percent < PERCENT:
            raise UsageError(
                f"--held-out-percent is {self.held_out_percent}, expected between 0 and {PERCENT}"
            )

"""What every reader of documents may ask for: how files are read and which documents are kept."""

import math
from dataclasses import dataclass
from typing import Literal

from jax_lm.documents.selection.characters import DSGPT2, keep_characters
from jax_lm.errors import UsageError

PERCENT = 100
DSGPT2_FEWEST_CHARACTERS = 5
NormalForm = Literal["NFC", "NFD", "NFKC", "NFKD"]
MixtureStops = Literal["first-exhausted", "all-exhausted"]


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How documents are read, rendered, cleaned and chosen, in this order."""

    lines: bool = False
    """Each line of a .txt file is a document; default: each file is."""
    on_bad_record: Literal["stop", "skip"] = "stop"
    """Stop at a malformed record, or skip and count it."""
    chat_template: str | None = None
    """How conversations become text: chatml, dsgpt2, vicuna, plain, bare (the turns alone), a jinja
    file or a tokenizer directory; default: the tokenizer's own where there is one, else plain."""
    weights: tuple[float, ...] = ()
    """Mix the SPECs, one number each, instead of reading one after another: shares of documents."""
    mixture_seed: int = 0
    """Decides the order of a mixture."""
    mixture_stops: MixtureStops = "first-exhausted"
    """A mixture ends with the first SPEC that has no more documents, so that the shares hold to
    the end, or goes on with the others until all are read; no document is read twice."""
    subsets: str | None = None
    """Keep these subsets alone, as in A,B."""
    exclude_subsets: str | None = None
    """Leave these subsets out, as in A,B."""
    normalize: Literal["none", "NFC", "NFD", "NFKC", "NFKD"] = "none"
    """Unicode normalization form of the text."""
    remove_urls: bool = False
    """Take web addresses out of the text."""
    allowed_characters: str | None = None
    """Keep these characters alone: sets and white space, as in ascii,hangul,emoji (an unknown
    name lists them all), or a regular expression's character class such as [a-zA-Z ]."""
    cleaning: Literal["none", "dsgpt2"] = "none"
    """A set of the above by one name. dsgpt2: no web addresses, no # and no characters but
    ASCII, Hangul, punctuation and emoji; documents shorter than 5 characters are left out."""
    min_characters: int | None = None
    """Leave out shorter documents; white space around a text and a chat template's markup do not
    count."""
    max_characters: int | None = None
    """Leave out longer documents."""
    split: Literal["all", "train", "held-out"] = "all"
    """Which side of the split by document hash to read."""
    held_out_percent: float = 1.0
    """Share of documents that the split holds out, chosen by a hash of their text: the same on
    every machine and in every order, and copies are on one side."""
    max_documents: int | None = None
    """Read no more than the first so many documents."""

    def __post_init__(self) -> None:
        """Refuse what leaves nothing or cannot be.

        Raises:
            UsageError: a value is out of range, or two contradict each other.
        """
        for name in ("max_documents", "min_characters", "max_characters"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"--{name.replace('_', '-')} should be 1 or more, not {value}")
        fewest, most = self.fewest_characters, self.max_characters
        if fewest is not None and most is not None and fewest > most:
            raise UsageError(
                f"--max-characters is {most}, so nothing is left: the least is {fewest}"
            )
        if not 0 < self.held_out_percent < PERCENT:
            raise UsageError(
                f"--held-out-percent is {self.held_out_percent}, expected between 0 and {PERCENT}"
            )
        check_weights(self.weights)
        if self.allowed_characters is not None:
            keep_characters(self.allowed_characters)
        self._check_subsets()

    def _check_subsets(self) -> None:
        if self.subsets is not None and not self.kept_subsets:
            raise UsageError("--subsets names none; write them as in A,B")
        both = sorted((self.kept_subsets or frozenset()) & self.left_out_subsets)
        if both:
            raise UsageError(f"{both[0]!r} is named by --subsets and by --exclude-subsets")

    @property
    def kept_subsets(self) -> frozenset[str] | None:
        """The subsets to keep, None for all."""
        return None if self.subsets is None else _names(self.subsets)

    @property
    def left_out_subsets(self) -> frozenset[str]:
        """The subsets to leave out."""
        return _names(self.exclude_subsets or "")

    @property
    def removes_urls(self) -> bool:
        """Whether web addresses are taken out, by their own flag or by a set's."""
        return self.remove_urls or self.cleaning == DSGPT2

    @property
    def characters(self) -> str | None:
        """The characters to keep, None for all; the flag of their own goes before a set's."""
        if self.allowed_characters is not None:
            return self.allowed_characters
        return DSGPT2 if self.cleaning == DSGPT2 else None

    @property
    def fewest_characters(self) -> int | None:
        """The least length of a document; the flag of its own goes before a set's."""
        if self.min_characters is not None:
            return self.min_characters
        return DSGPT2_FEWEST_CHARACTERS if self.cleaning == DSGPT2 else None


def check_weights(weights: tuple[float, ...]) -> None:
    """Refuse shares that are not above 0.

    Raises:
        UsageError: it names the first.
    """
    for weight in weights:
        if not (math.isfinite(weight) and weight > 0):
            raise UsageError(f"--weights holds {weight}, expected numbers above 0")


def _names(written: str) -> frozenset[str]:
    return frozenset(name.strip() for name in written.split(",") if name.strip())

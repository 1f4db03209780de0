"""Which special token plays which part: beginning, end, padding, unknown."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tokenizers import pre_tokenizers

from jax_lm.errors import JaxLMError

END_OF_TEXT = "<|endoftext|>"
CONVENTIONS = {
    "bos": ("<s>", END_OF_TEXT),
    "eos": ("</s>", END_OF_TEXT),
    "pad": ("<pad>", "<|padding|>", "<|pad|>", "[PAD]"),
    "unk": ("<unk>", "[UNK]"),
    "mask": ("<mask>", "[MASK]"),
    "cls": ("[CLS]",),
    "sep": ("[SEP]",),
}
"""Names that say their part, the first that is there counts; GPT-2's bos and eos are one token."""


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """The token, if any, that plays each part."""

    bos: str | None = None
    eos: str | None = None
    pad: str | None = None
    unk: str | None = None
    mask: str | None = None
    cls: str | None = None
    sep: str | None = None

    @classmethod
    def by_convention(cls, names: Sequence[str]) -> "SpecialTokens":
        """Parts that special tokens play by their names alone."""
        parts = {
            part: next((known for known in conventional if known in names), None)
            for part, conventional in CONVENTIONS.items()
        }
        return cls(**parts)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "SpecialTokens | None":
        """Parts as ``tokenizer_config.json`` names them, None where it names none."""
        parts = {part: _content(config.get(f"{part}_token")) for part in CONVENTIONS}
        return cls(**parts) if any(parts.values()) else None

    def config(self) -> dict[str, str]:
        """The parts as ``tokenizer_config.json`` names them."""
        return {f"{part}_token": token for part, token in asdict(self).items() if token}


def check_special_tokens(tokens: Sequence[str]) -> None:
    """Refuse special tokens that ordinary text could turn into.

    Raises:
        JaxLMError: a token is named twice, or could be learned as a piece of a text.
    """
    pieces = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    for token in tokens:
        if tokens.count(token) > 1:
            raise JaxLMError(f"special token {token!r} is given twice; name each once")
        if len(pieces.pre_tokenize_str(token)) < 2:
            raise JaxLMError(
                f"special token {token!r} looks like ordinary text, which would then be read as "
                "that token; set it apart, as in <|pad|>"
            )


def _content(token: object) -> str | None:
    """A token is written as its text, or as an object with its text and how it is matched."""
    if isinstance(token, Mapping):
        token = token.get("content")
    return token if isinstance(token, str) else None

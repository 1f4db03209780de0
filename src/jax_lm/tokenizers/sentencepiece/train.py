"""Learn a SentencePiece model with the ``sentencepiece`` library."""

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from jax_lm.errors import JaxLMError, UsageError, missing_extra
from jax_lm.tokenizers.encoders.base import refuse_lone_surrogates

MAX_LINE_BYTES = 4096
"""SentencePiece leaves out lines longer than this; here they are cut instead."""
MAX_CHARACTERS = MAX_LINE_BYTES // 4
IDS = {"pad_id": -1, "unk_id": 0, "bos_id": 1, "eos_id": 2}
"""SentencePiece's defaults."""
ERRORS_ALONE = 2
"""Level of what the library prints."""


@dataclass(frozen=True, kw_only=True)
class SentencePieceSettings:
    """What ``spm_train`` calls the same, for the kinds sentencepiece-bpe and -unigram."""

    input_sentence_size: int | None = None
    """Learn from so many lines, drawn at random by SentencePiece; default: all. They are held in
    memory."""
    control_symbols: tuple[str, ...] = ()
    """Special tokens that no text gives, after the four below."""
    user_defined_symbols: tuple[str, ...] = ()
    """Strings that are always one token."""
    pad_id: int | None = None
    """Id of padding, -1 for none; SentencePiece's default is -1."""
    unk_id: int | None = None
    """Id of what stands for an unknown character; SentencePiece's default is 0."""
    bos_id: int | None = None
    """Id of the beginning, -1 for none; SentencePiece's default is 1."""
    eos_id: int | None = None
    """Id of the end, -1 for none; SentencePiece's default is 2."""
    pad_piece: str = "<pad>"
    """Name of padding."""
    unk_piece: str = "<unk>"
    """Name of the unknown."""
    bos_piece: str = "<s>"
    """Name of the beginning."""
    eos_piece: str = "</s>"
    """Name of the end."""
    character_coverage: float | None = None
    """Share of the text's characters in the vocabulary; SentencePiece's default is 0.9995."""
    byte_fallback: bool = False
    """Spell other characters in bytes, so that no text is lost."""
    normalization_rule_name: Literal["identity", "nfkc", "nfkc_cf", "nmt_nfkc", "nmt_nfkc_cf"] = (
        "nmt_nfkc"
    )
    """What is done to text first; identity keeps it, cf folds case."""
    split_digits: bool = False
    """Each digit is a token."""
    keep_whitespace: bool = False
    """Keep runs of spaces, and spaces at either end, instead of making them one or none."""


def check_settings(settings: SentencePieceSettings) -> None:
    """Refuse parts that share an id.

    Raises:
        UsageError: two of them do, or the unknown has none.
    """
    given = {name: getattr(settings, name) for name in IDS}
    ids = {name: IDS[name] if value is None else value for name, value in given.items()}
    used = [one for one in ids.values() if one >= 0]
    if len(set(used)) != len(used):
        said = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in ids.items())
        raise UsageError(f"two parts have the same id in {said}; give each its own, or -1 for none")
    if ids["unk_id"] < 0:
        raise UsageError("--unk-id must be 0 or more: SentencePiece needs an unknown piece")


def train_model(
    texts: Iterable[str],
    model_type: Literal["bpe", "unigram"],
    vocab_size: int,
    settings: SentencePieceSettings,
) -> bytes:
    """The bytes of a ``.model`` learned from the lines of some texts.

    Raises:
        JaxLMError: no text, impossible settings, or sentencepiece is not installed.
    """
    try:
        import sentencepiece
    except ImportError as error:
        purpose = "training a SentencePiece model"
        raise missing_extra("sentencepiece", "sentencepiece", purpose) from error
    model = io.BytesIO()
    lines = _Lines(texts)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type=model_type,
            vocab_size=vocab_size,
            minloglevel=ERRORS_ALONE,
            **_options(settings),
        )
    except (RuntimeError, OSError, ValueError) as error:
        lines.raise_what_stopped_them()
        if not lines.count:
            raise _no_text() from error
        raise JaxLMError(f"sentencepiece cannot learn this: {_reason(error)}") from error
    lines.raise_what_stopped_them()
    return model.getvalue()


def _options(settings: SentencePieceSettings) -> dict[str, Any]:
    options: dict[str, Any] = {
        name: value
        for name in (*IDS, "character_coverage", "input_sentence_size")
        if (value := getattr(settings, name)) is not None
    }
    if settings.input_sentence_size is not None:
        options["shuffle_input_sentence"] = True
    for part in ("pad", "unk", "bos", "eos"):
        options[f"{part}_piece"] = getattr(settings, f"{part}_piece")
    return options | {
        "control_symbols": list(settings.control_symbols),
        "user_defined_symbols": list(settings.user_defined_symbols),
        "byte_fallback": settings.byte_fallback,
        "normalization_rule_name": settings.normalization_rule_name,
        "split_digits": settings.split_digits,
        "remove_extra_whitespaces": not settings.keep_whitespace,
        "max_sentence_length": MAX_LINE_BYTES,
    }


class _Lines:
    """Lines of texts, short enough for SentencePiece.

    An error of the source must not pass through the library, which would not give it back.
    """

    def __init__(self, texts: Iterable[str]):
        self._texts = texts
        self._error: BaseException | None = None
        self.count = 0

    def __iter__(self) -> Iterator[str]:
        """The lines, none of them empty."""
        try:
            for text in self._texts:
                refuse_lone_surrogates([text])
                for line in text.split("\n"):
                    for piece in _short_pieces(line):
                        self.count += 1
                        yield piece
        except Exception as error:
            self._error = error

    def raise_what_stopped_them(self) -> None:
        """Raise the source's error, if there was one."""
        if self._error is not None:
            raise self._error


def _short_pieces(line: str) -> Iterator[str]:
    """A line, cut at spaces where it is too long; a word too long for itself is cut anywhere."""
    line = line.strip("\r").replace("\x00", " ")
    while len(line) > MAX_CHARACTERS:
        cut = line.rfind(" ", 1, MAX_CHARACTERS)
        cut = MAX_CHARACTERS if cut < 0 else cut
        yield line[:cut]
        line = line[cut:]
    if line.strip():
        yield line


def _no_text() -> JaxLMError:
    return JaxLMError("the corpus has no text to learn from; name documents that have some")


def _reason(error: Exception) -> str:
    """The library's reason, without its place in C++; a vocabulary too large is the usual one."""
    text = str(error).replace("\n", " ").strip()
    reason = text.rsplit("] ", 1)[-1] or text
    if "Vocabulary size" in reason or "vocab_size" in text:
        return f"{reason} (--vocab-size must fit the corpus)"
    return reason

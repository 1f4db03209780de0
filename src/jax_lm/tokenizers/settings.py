"""What to learn a tokenizer with: the settings of all kinds, and named sets of special tokens."""

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from jax_lm.errors import UsageError
from jax_lm.tokenizers.description import Kind
from jax_lm.tokenizers.sampling import SampleSettings
from jax_lm.tokenizers.sentencepiece.train import SentencePieceSettings, check_settings
from jax_lm.tokenizers.special import END_OF_TEXT

DEFAULT_VOCAB_SIZE = 8192
DEFAULT_MIN_FREQUENCY = 2
DSGPT2_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>", "<sys>", "<usr>")
T5: dict[str, Any] = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1, "sentinels": 100}


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(SentencePieceSettings, SampleSettings):
    """What to learn."""

    kind: Kind = "byte-level-bpe"
    """Pieces of words over bytes, SentencePiece's two kinds, or single characters."""
    vocab_size: int | None = None
    """Ids wanted, special ones included (sentinels apart); 8192 if not given."""
    min_frequency: int | None = None
    """byte-level-bpe merges a pair seen at least so often; 2 if not given."""
    special_tokens: tuple[str, ...] | None = None
    """Tokens no text can spell; they take the first ids, or in SentencePiece's kinds those after
    its own. Default: <|endoftext|>, and none in SentencePiece's kinds."""
    preset: Literal["dsgpt2", "t5"] | None = None
    """Special tokens as others have them. dsgpt2: <s> <pad> </s> <unk> <mask> <sys> <usr>. t5: pad
    0, eos 1, unk 2 and 100 sentinels, for SentencePiece's kinds."""
    unused_tokens: int = 0
    """So many more special tokens, <unused0>, <unused1> ..., after the others."""
    sentinels: int | None = None
    """So many tokens <extra_id_0>, <extra_id_1> ... beside the vocabulary, the first with the
    highest id, as T5 has them; none if not given."""

    @property
    def is_sentencepiece(self) -> bool:
        """Whether SentencePiece learns it."""
        return self.kind.startswith("sentencepiece")

    def resolved(self) -> "TrainingSettings":
        """The settings with presets and defaults filled in.

        Raises:
            UsageError: settings that contradict each other, or mean nothing for the kind.
        """
        self._refuse_what_means_nothing()
        filled = self._with_preset()
        tokens = filled.special_tokens
        if tokens is None:
            tokens = () if self.is_sentencepiece else (END_OF_TEXT,)
        tokens += tuple(f"<unused{i}>" for i in range(self.unused_tokens))
        filled = replace(filled, special_tokens=tokens, preset=None, unused_tokens=0)
        if self.is_sentencepiece:
            check_settings(filled)
            symbols = tuple(dict.fromkeys([*filled.control_symbols, *tokens]))
            return replace(filled, control_symbols=symbols)
        return filled

    def _with_preset(self) -> "TrainingSettings":
        if self.preset == "dsgpt2":
            if self.special_tokens is not None:
                raise UsageError("--preset dsgpt2 names the special tokens; drop --special-tokens")
            return replace(self, special_tokens=DSGPT2_TOKENS)
        if self.preset == "t5":
            absent = {name: value for name, value in T5.items() if getattr(self, name) is None}
            return replace(self, **absent)
        return self

    def _refuse_what_means_nothing(self) -> None:
        limits = {"unused_tokens": 0, "sentinels": 0, "sample_documents": 1, "sample_bytes": 1}
        limits |= {"vocab_size": 1, "min_frequency": 0, "input_sentence_size": 1}
        for name, least in limits.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"--{_flag(name)} is {value}, expected {least} or more")
        if self.kind == "characters" and self.vocab_size is not None:
            raise UsageError(
                "--vocab-size is for the other kinds; characters takes every character"
            )
        if self.kind != "byte-level-bpe" and self.min_frequency is not None:
            raise UsageError(f"--min-frequency is for byte-level-bpe, not for {self.kind}")
        if self.is_sentencepiece:
            if self.preset == "dsgpt2":
                raise UsageError("--preset dsgpt2 is for --kind byte-level-bpe")
            return
        if self.preset == "t5":
            raise UsageError("--preset t5 is for --kind sentencepiece-unigram or sentencepiece-bpe")
        for field in fields(SentencePieceSettings):
            if getattr(self, field.name) != field.default:
                raise UsageError(f"--{_flag(field.name)} is for SentencePiece's kinds; add --kind")


def _flag(name: str) -> str:
    return name.replace("_", "-")

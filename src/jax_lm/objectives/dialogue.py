"""dsGPT2's dialogues: ``<usr> <s> question </s> <sys> <s> answer </s>``, the answer scored.

Rows are pairs of a question and an answer (``--mode pairs --chat-template bare``).
"""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from jaxtyping import Int

from jax_lm.errors import JaxLMError
from jax_lm.objectives.base import RowDraws, Wanted, check_shares, pad_id_of, put_runs
from jax_lm.objectives.seq2seq import Pairs, scored_from
from jax_lm.tokenizers.base import Tokenizer, special_names
from jax_lm.types import Batch, Rows

USER, SYSTEM, BEGIN, END = "<usr>", "<sys>", "<s>", "</s>"
FEWEST = 3
"""Places an answer needs: its two marks and a token."""


@dataclass(frozen=True, kw_only=True)
class DialogueConfig:
    """Answers are predicted from questions, in dsGPT2's format, in rows made with --mode pairs."""

    name: Literal["dialogue"] = "dialogue"
    """The objective."""
    alpha: float = 0.0
    """Probability that a row's answer is its question, drawn for each row (alpha blending)."""
    score_padding: bool = False
    """Also learn that padding follows the closing </s>, as dsGPT2 did."""

    def __post_init__(self) -> None:
        """Refuse what is no probability.

        Raises:
            UsageError: alpha is outside 0 to 1.
        """
        check_shares(self, "alpha")


@dataclass(frozen=True, kw_only=True, eq=False)
class Dialogue:
    """Batches of one question and answer a row."""

    config: DialogueConfig
    length: int
    """Width of the batches."""
    user: Int[np.ndarray, "marks"]
    """What begins a question."""
    system: Int[np.ndarray, "marks"]
    """What begins an answer."""
    end_id: int
    pad_id: int

    @classmethod
    def of(cls, config: DialogueConfig, tokenizer: Tokenizer, wanted: Wanted) -> Self:
        """The objective for a tokenizer and a model.

        Raises:
            JaxLMError: the tokenizer lacks one of the marks.
        """
        names = special_names(tokenizer)
        missing = [name for name in (USER, SYSTEM, BEGIN, END) if name not in names]
        if missing:
            raise JaxLMError(
                f"objective {config.name} needs the special tokens {', '.join(missing)}, which the "
                "tokenizer lacks: train one with --preset dsgpt2"
            )
        return cls(
            config=config,
            length=wanted.input_length,
            user=np.array([names[USER], names[BEGIN]], np.int32),
            system=np.array([names[SYSTEM], names[BEGIN]], np.int32),
            end_id=names[END],
            pad_id=pad_id_of(tokenizer),
        )

    def __call__(self, rows: Rows, draws: RowDraws) -> Batch:
        """A question that fills the row keeps its last half row; an answer is cut at its end."""
        pairs = Pairs(rows)
        questions = pairs.inputs[:, : int(pairs.input_sizes.max(initial=0))]
        answers, sizes = pairs.outputs, pairs.output_sizes
        last = answers[np.arange(len(sizes)), np.maximum(sizes - 1, 0)]
        sizes = sizes - ((last == self.end_id) & (sizes > 0))  # closed below, like a question
        if self.config.alpha > 0:
            blended = draws.uniforms(1)[:, 0] < self.config.alpha
            answers, sizes = _either(blended, (questions, pairs.input_sizes), (answers, sizes))
        asked, begin = self._framed(self.user, questions, pairs.input_sizes)
        answered, end = self._framed(self.system, answers, sizes)
        room = self.length + 1
        kept = np.where(begin > room - FEWEST, np.minimum(begin, self.length // 2), begin)
        shown = np.minimum(end, room - kept)
        line = np.full((len(kept), room), self.pad_id, np.int32)
        put_runs(line, np.zeros_like(kept), asked, begin - kept, kept)
        put_runs(line, kept, answered, np.zeros_like(kept), shown)
        stop = kept + shown
        if self.config.score_padding:
            stop = stop + ((shown == end) & (stop < room))
        return scored_from(line, kept + len(self.system), stop)

    def _framed(
        self,
        marks: Int[np.ndarray, "marks"],
        ids: Int[np.ndarray, "batch width"],
        sizes: Int[np.ndarray, "batch"],
    ) -> tuple[Int[np.ndarray, "batch wider"], Int[np.ndarray, "batch"]]:
        """Turns with the marks before and the end token after each, and how long they are."""
        begins = np.broadcast_to(marks, (len(ids), len(marks)))
        room = np.zeros((len(ids), 1), np.int32)
        framed = np.concatenate([begins, ids, room], axis=1).astype(np.int32)
        framed[np.arange(len(ids)), len(marks) + sizes] = self.end_id
        return framed, sizes + len(marks) + 1


def _either(
    first: np.ndarray, one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]
) -> tuple[Int[np.ndarray, "batch width"], Int[np.ndarray, "batch"]]:
    """Ids and sizes of ``one`` where ``first`` is true, else of ``other``."""
    width = max(one[0].shape[1], other[0].shape[1])
    wide = [np.pad(ids, ((0, 0), (0, width - ids.shape[1]))) for ids in (one[0], other[0])]
    return np.where(first[:, None], *wide), np.where(first, one[1], other[1])

"""Masked language modelling, as BERT and RoBERTa train.

Devlin et al. 2019 (arXiv 1810.04805, section 3.1): a share of the tokens is chosen; of these most
become the mask token, some another token, and the rest stay. Liu et al. 2019 (arXiv 1907.11692)
draw anew each time a row is read.
"""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from jaxtyping import Bool, Int

from jax_lm.errors import JaxLMError, UsageError
from jax_lm.objectives.base import RowDraws, Wanted, check_shares, first_ids, is_special, places
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.types import Batch, Rows


@dataclass(frozen=True, kw_only=True)
class MaskedLMConfig:
    """Some tokens are hidden and predicted from all others, as BERT and RoBERTa train."""

    name: Literal["masked-lm"] = "masked-lm"
    """The objective."""
    probability: float = 0.15
    """Of a token that is not special to be chosen: a target, and perhaps hidden."""
    mask_share: float = 0.8
    """Of the chosen, become the mask token."""
    random_share: float = 0.1
    """Of the chosen, become any token that is not special; the rest stay as they are."""

    def __post_init__(self) -> None:
        """Refuse what is no share.

        Raises:
            UsageError: a share is outside 0 to 1, or nothing would be a target.
        """
        check_shares(self, "probability", "mask_share", "random_share")
        if self.probability == 0:
            raise UsageError("probability is 0, so that nothing would be a target")
        if self.mask_share + self.random_share > 1:
            raise UsageError(
                f"mask_share {self.mask_share} and random_share {self.random_share} are more than 1"
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class MaskedLM:
    """Hides tokens of rows and asks for them."""

    config: MaskedLMConfig
    length: int
    """Width of the batches."""
    mask_id: int
    special: Bool[np.ndarray, "vocab"]
    """Ids that are never chosen."""
    ordinary: Int[np.ndarray, "ordinary"]
    """Ids that may stand where a token is replaced."""

    @classmethod
    def of(cls, config: MaskedLMConfig, tokenizer: Tokenizer, wanted: Wanted) -> Self:
        """The objective for a tokenizer and a model.

        Raises:
            JaxLMError: the tokenizer has no mask token.
        """
        mask_id = mask_id_of(tokenizer, config.name)
        special = is_special(tokenizer)
        ordinary = np.flatnonzero(~special).astype(np.int32)
        length = wanted.input_length
        return cls(
            config=config, length=length, mask_id=mask_id, special=special, ordinary=ordinary
        )

    def __call__(self, rows: Rows, draws: RowDraws) -> Batch:
        """Inputs with tokens hidden; targets at the chosen places alone."""
        ids, lengths = first_ids(rows, self.length)
        real = places(lengths, ids.shape[1])
        uniform = draws.uniforms(ids.shape[1])
        chosen = real & ~self.special[ids] & (uniform < self.config.probability)
        segments = real if rows.segment_ids is None else rows.segment_ids[:, : self.length]
        return Batch(
            self._hidden(ids, chosen, uniform),
            np.where(chosen, ids, 0),
            chosen.astype(np.float32),
            segments.astype(np.int32),
        )

    def _hidden(
        self,
        ids: Int[np.ndarray, "batch seq"],
        chosen: Bool[np.ndarray, "batch seq"],
        uniform: np.ndarray,
    ) -> Int[np.ndarray, "batch seq"]:
        # Given that a number chose its place, how far below the probability it lies is uniform
        # again, so that one draw a place decides everything.
        masked_up_to = self.config.probability * self.config.mask_share
        random_up_to = masked_up_to + self.config.probability * self.config.random_share
        inputs = np.where(chosen & (uniform < masked_up_to), np.int32(self.mask_id), ids)
        replaced = chosen & (uniform >= masked_up_to) & (uniform < random_up_to)
        part = (uniform[replaced] - masked_up_to) / (random_up_to - masked_up_to or 1)
        which = (part * len(self.ordinary)).astype(np.int64)
        inputs[replaced] = self.ordinary[np.minimum(which, len(self.ordinary) - 1)]
        return inputs


def mask_id_of(tokenizer: Tokenizer, objective: str) -> int:
    """The id that hides a token.

    Raises:
        JaxLMError: the tokenizer has no mask token.
    """
    if tokenizer.mask_id is None:
        raise JaxLMError(
            f"objective {objective} needs a mask token and the tokenizer has none: train one with "
            "--special-tokens '<s>' '<pad>' '</s>' '<unk>' '<mask>'"
        )
    return tokenizer.mask_id

"""What a model is trained to predict: the one Protocol every objective satisfies."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Bool, Float, Int

from jax_lm.errors import JaxLMError, UsageError
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.types import Batch, ModelKind, Rows

WORD = 1 << 64


class RowDraws(NamedTuple):
    """The chance in a batch: a pure function of the seed and each row's place in the training.

    A row is drawn for anew each time it comes round, and alike on any number of hosts.
    """

    seed: int
    positions: Int[np.ndarray, "batch"]
    """Each row's place in the endless order of training rows, step * batch + place; the row's
    index where rows are scored, so that held-out numbers can be compared."""

    def generator(self, row: int) -> np.random.Generator:
        """Row ``row``'s own random numbers, from the start (Philox, keyed by seed and place)."""
        key = np.array([self.seed % WORD, int(self.positions[row])], np.uint64)
        return np.random.Generator(np.random.Philox(key=key))

    def uniforms(self, count: int) -> Float[np.ndarray, "batch count"]:
        """The first ``count`` numbers in [0, 1) of every row (float64)."""
        drawn = np.empty((len(self.positions), count))
        for row in range(len(drawn)):
            self.generator(row).random(out=drawn[row])
        return drawn

    def chosen(self, rows: Int[np.ndarray, "chosen"]) -> "RowDraws":
        """Those of some rows."""
        return RowDraws(self.seed, self.positions[rows])


class Objective(Protocol):
    """Turns feature rows into the batch a model trains on; a pure function of its arguments."""

    def __call__(self, rows: Rows, draws: RowDraws) -> Batch:
        """Inputs, targets and target weights of every row."""
        ...


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What an objective must know of the model it makes batches for."""

    kind: ModelKind
    input_length: int
    """Width of ``input_ids``, the model's context length."""
    target_length: int | None = None
    """Width of an encoder-decoder's targets; a decoder's longest output, where it has pairs."""
    decoder_start_id: int | None = None
    """What an encoder-decoder's decoder reads first."""

    def started(self) -> int:
        """The id that the decoder reads first.

        Raises:
            JaxLMError: the model names none.
        """
        if self.decoder_start_id is None:
            raise JaxLMError(
                "the model's configuration has no decoder_start_id, the token that an "
                "encoder-decoder's decoder reads first: set it"
            )
        return self.decoder_start_id


def pad_id_of(tokenizer: Tokenizer) -> int:
    """What fills rows: the padding token, else EOS, else id 0; nothing tells by the id."""
    ids = (tokenizer.pad_id, tokenizer.eos_id, 0)
    return next(token_id for token_id in ids if token_id is not None)


def is_special(tokenizer: Tokenizer) -> Bool[np.ndarray, "vocab"]:
    """Which ids spell no text."""
    special = np.zeros(tokenizer.vocab_size, bool)
    special[sorted(tokenizer.special_ids)] = True
    return special


def places(lengths: Int[np.ndarray, "batch"], width: int) -> Bool[np.ndarray, "batch width"]:
    """Which places of rows hold tokens, given how many each has."""
    held: np.ndarray = np.arange(width) < lengths[:, None]
    return held


def first_ids(
    rows: Rows, length: int
) -> tuple[Int[np.ndarray, "batch length"], Int[np.ndarray, "batch"]]:
    """The first ``length`` ids of each row and how many are tokens.

    Rows made for causal language modelling hold one id more, the next row's first.
    """
    return rows.input_ids[:, :length].astype(np.int32), np.minimum(rows.lengths, length)


def put_runs(
    into: Int[np.ndarray, "batch width"],
    at: Int[np.ndarray, "batch"],
    values: Int[np.ndarray, "batch values"],
    starts: Int[np.ndarray, "batch"],
    sizes: Int[np.ndarray, "batch"],
) -> None:
    """Write ``values[i, starts[i]:][:sizes[i]]`` into row i from place ``at[i]`` on."""
    row = np.repeat(np.arange(len(sizes)), sizes)
    offset = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    into[row, at[row] + offset] = values[row, starts[row] + offset]


def shifted_right(
    targets: Int[np.ndarray, "batch target_seq"], start_id: int
) -> Int[np.ndarray, "batch target_seq"]:
    """What a decoder reads to predict ``targets``: each one place later, after a start token."""
    first = np.full((len(targets), 1), start_id, targets.dtype)
    return np.concatenate([first, targets[:, :-1]], axis=1)


def check_shares(config: object, *names: str) -> None:
    """Refuse shares outside 0 to 1.

    Raises:
        UsageError: one is.
    """
    for name in names:
        value = getattr(config, name)
        if not 0 <= value <= 1:
            raise UsageError(f"{name} is {value}, expected a share from 0 to 1")

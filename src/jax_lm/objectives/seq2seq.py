"""Inputs and outputs apart (rows of mode ``pairs``): the output is predicted from the input.

An encoder-decoder reads the input in one stack and the output in the other; a decoder reads both
in one row and learns the output alone. Inputs that are too long lose their start, outputs their
end, and with it the end token.
"""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from jaxtyping import Int

from jax_lm.errors import JaxLMError
from jax_lm.objectives.base import RowDraws, Wanted, pad_id_of, places, put_runs, shifted_right
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.types import Batch, Rows


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig:
    """Outputs are predicted from inputs, in rows made with --mode pairs."""

    name: Literal["seq2seq"] = "seq2seq"
    """The objective."""
    frame_inputs: bool = True
    """Encoder-decoders: put BOS before and EOS after each input, where the tokenizer has them, as
    T5 and BART were trained; a decoder's row always begins with BOS."""


class Pairs:
    """Inputs and outputs of rows."""

    def __init__(self, rows: Rows) -> None:
        """Take the pairs of rows.

        Raises:
            JaxLMError: they hold none.
        """
        if rows.target_ids is None or rows.target_lengths is None:
            raise JaxLMError(
                "the rows hold no pairs of input and output: preprocess with --mode pairs"
            )
        self.inputs, self.outputs = rows.input_ids, rows.target_ids
        self.input_sizes = rows.lengths.astype(np.int64)
        self.output_sizes = rows.target_lengths.astype(np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Seq2Seq:
    """Batches for encoder-decoders."""

    input_width: int
    target_width: int
    bos: tuple[int, ...]
    """What every input begins with."""
    eos: tuple[int, ...]
    """What every input ends with."""
    pad_id: int
    decoder_start_id: int

    @classmethod
    def of(cls, config: Seq2SeqConfig, tokenizer: Tokenizer, wanted: Wanted) -> Self:
        """The objective for a tokenizer and a model.

        Raises:
            JaxLMError: the model names no token that its decoder starts with, or its inputs have
                no room for text.
        """
        frame = (tokenizer.bos_id, tokenizer.eos_id) if config.frame_inputs else (None, None)
        bos, eos = (() if token_id is None else (token_id,) for token_id in frame)
        if wanted.input_length <= len(bos) + len(eos):
            raise JaxLMError(f"inputs of {wanted.input_length} tokens have no room for text")
        return cls(
            input_width=wanted.input_length,
            target_width=wanted.target_length or wanted.input_length,
            bos=bos,
            eos=eos,
            pad_id=pad_id_of(tokenizer),
            decoder_start_id=wanted.started(),
        )

    def __call__(self, rows: Rows, draws: RowDraws) -> Batch:
        """Inputs between BOS and EOS, and outputs as they are stored."""
        pairs = Pairs(rows)
        batch, lead = len(pairs.inputs), len(self.bos)
        inputs = np.full((batch, self.input_width), self.pad_id, np.int32)
        sizes = np.minimum(pairs.input_sizes, self.input_width - lead - len(self.eos))
        inputs[:, :lead] = self.bos
        put_runs(inputs, np.full(batch, lead), pairs.inputs, pairs.input_sizes - sizes, sizes)
        for token_id in self.eos:
            inputs[np.arange(batch), lead + sizes] = token_id
        targets = np.full((batch, self.target_width), self.pad_id, np.int32)
        lengths = np.minimum(pairs.output_sizes, self.target_width)
        none = np.zeros(batch, np.int64)
        put_runs(targets, none, pairs.outputs, none, lengths)
        return Batch(
            inputs,
            targets,
            places(lengths, self.target_width).astype(np.float32),
            places(lead + sizes + len(self.eos), self.input_width).astype(np.int32),
            decoder_input_ids=shifted_right(targets, self.decoder_start_id),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class JoinedPairs:
    """Batches for decoders: ``[BOS input output]`` in one row, the output alone scored."""

    length: int
    """Width of the batches."""
    longest_output: int | None
    """Tokens of an output that are kept; None: as many as fit beside its input."""
    bos: tuple[int, ...]
    """What every row begins with."""
    pad_id: int

    @classmethod
    def of(cls, config: Seq2SeqConfig, tokenizer: Tokenizer, wanted: Wanted) -> Self:
        """The objective for a tokenizer and a model."""
        return cls(
            length=wanted.input_length,
            longest_output=wanted.target_length,
            bos=() if tokenizer.bos_id is None else (tokenizer.bos_id,),
            pad_id=pad_id_of(tokenizer),
        )

    def __call__(self, rows: Rows, draws: RowDraws) -> Batch:
        """Input and output in one row; each has half of it, and what the other leaves."""
        pairs = Pairs(rows)
        lead = len(self.bos)
        room = self.length + 1 - lead
        outputs = np.minimum(pairs.output_sizes, self.longest_output or room)
        outputs = np.minimum(outputs, np.maximum(room - pairs.input_sizes, room // 2))
        begun = self._begun(pairs)
        inputs = np.minimum(pairs.input_sizes - begun, room - outputs)
        line = np.full((len(inputs), self.length + 1), self.pad_id, np.int32)
        line[:, :lead] = self.bos
        at = np.full(len(inputs), lead)
        put_runs(line, at, pairs.inputs, pairs.input_sizes - inputs, inputs)
        put_runs(line, at + inputs, pairs.outputs, np.zeros_like(at), outputs)
        return scored_from(line, lead + inputs, lead + inputs + outputs)

    def _begun(self, pairs: Pairs) -> Int[np.ndarray, "batch"]:
        """1 for an input that begins with BOS itself, which is not repeated."""
        if not self.bos:
            return np.zeros_like(pairs.input_sizes)
        begun = (pairs.inputs[:, 0] == self.bos[0]) & (pairs.input_sizes > 0)
        return np.asarray(begun, np.int64)


def scored_from(
    line: Int[np.ndarray, "batch line"],
    first: Int[np.ndarray, "batch"],
    stop: Int[np.ndarray, "batch"],
) -> Batch:
    """A decoder's batch of lines of T + 1 ids, whose targets are places ``first`` to ``stop``.

    Args:
        line: the ids; padding follows the last target.
        first: place in the line of the first target.
        stop: place after the last.
    """
    width = line.shape[1] - 1
    scored = places(stop - 1, width) & ~places(first - 1, width)
    segments = places(np.minimum(stop, width), width)
    return Batch(line[:, :-1], line[:, 1:], scored.astype(np.float32), segments.astype(np.int32))

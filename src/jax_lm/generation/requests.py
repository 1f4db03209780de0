"""What is asked of a decoder, and what it answers, token by token."""

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from jax_lm.generation.sampling import SamplingConfig

Finish = Literal["stop", "length"]
"""Why a text ends: a token or string that ends it, or as many tokens as were wanted or fit."""


@dataclass(frozen=True)
class Request:
    """A prompt to continue."""

    prompt: Sequence[int]
    """Token ids; of an encoder-decoder, its encoder's input."""
    sampling: SamplingConfig
    """How; strings that end a text are the caller's to find."""
    copy: int = 0
    """Which of several continuations of the same prompt this is."""
    made: int = 0
    """Tokens drawn before, where the prompt is the end of a longer text; the limits count them."""

    @property
    def random_words(self) -> tuple[int, int, int]:
        """What the request's random numbers depend on."""
        digest = zlib.crc32(np.asarray(self.prompt, np.int32).tobytes())
        return self.sampling.seed, digest, self.copy


class Drawn(NamedTuple):
    """A row's next token."""

    slot: int
    """As ``admit`` gave it; where ``finish`` is not None it is free again."""
    id: int
    """Where ``finish`` is ``"stop"`` this token ends the text, and is not part of it."""
    log_prob: float
    """Natural log of the model's own probability: before penalties, temperature and the like."""
    finish: Finish | None
    """None: the text goes on."""


def copies(prompts: Sequence[Sequence[int]]) -> list[int]:
    """How often each prompt has occurred before."""
    seen: Counter[tuple[int, ...]] = Counter()
    numbers = []
    for prompt in map(tuple, prompts):
        numbers.append(seen[prompt])
        seen[prompt] += 1
    return numbers

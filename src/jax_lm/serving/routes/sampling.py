"""Fields of a request -> how text is drawn."""

import secrets
from collections.abc import Mapping
from typing import Any

from jax_lm.generation.sampling import SamplingConfig

COLDEST = 1e-3
"""Below it the most probable token is as good as certain, and float32 overflows soon."""
SMALLEST_P = 1e-6
"""As small as float32 tells from 0 beside probabilities near 1; the first token stays anyway."""


def sampling(given: Mapping[str, Any], *, room: int, default_tokens: int) -> SamplingConfig:
    """The settings that a request asks for; without a seed of its own it gets another every time.

    Args:
        given: the fields, by OpenAI's names.
        room: tokens that fit the context after the prompt.
        default_tokens: how many are written where the request does not say.

    Raises:
        UsageError: settings that contradict each other.
    """
    most = given.get("max_completion_tokens", given.get("max_tokens", default_tokens))
    most = min(most, room)
    temperature = given.get("temperature", 1.0)
    return SamplingConfig(
        max_new_tokens=most,
        min_new_tokens=min(given.get("min_tokens", 0), most),
        temperature=0.0 if temperature < COLDEST else float(temperature),
        top_k=given.get("top_k", 0),
        top_p=max(SMALLEST_P, float(given.get("top_p", 1.0))),
        min_p=float(given.get("min_p", 0.0)),
        repetition_penalty=float(given.get("repetition_penalty", 1.0)),
        stop_ids=tuple(given.get("stop_token_ids", ())),
        seed=given.get("seed", secrets.randbits(32)) % 2**32,
    )


def stop_texts(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The texts that end an answer."""
    stop = given.get("stop", ())
    return (stop,) if isinstance(stop, str) else tuple(stop)

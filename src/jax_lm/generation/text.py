"""Continuing texts: the tokenizer on either side of decoding."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from jax_lm.errors import JaxLMError, UsageError
from jax_lm.generation.decode import generate
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.models.decoder import Decoder
from jax_lm.tokenizers.base import Tokenizer


class Continuation(NamedTuple):
    """A text and what the model wrote after it."""

    prompt: str
    text: str
    """The new part alone."""
    num_tokens: int
    """New tokens."""


def continue_texts(
    model: Decoder,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    config: SamplingConfig,
    *,
    notice: Callable[[str], None] | None = None,
) -> list[Continuation]:
    """Continue texts in one batch; an empty one starts as a document does (BOS, else EOS).

    Args:
        model: whose vocabulary is the tokenizer's.
        tokenizer: spells prompts and continuations.
        prompts: the same one several times gives different samples of it.
        config: how tokens are drawn, and how many.
        notice: told once when a prompt is cut or the context is full.

    Raises:
        UsageError: a prompt is empty, and the tokenizer has neither BOS nor EOS.
        JaxLMError: a prompt has a character that the vocabulary cannot spell.
    """
    encoded = _encode(tokenizer, prompts)
    written = generate(model, encoded, config, eos_id=tokenizer.eos_id, notice=notice)
    return [
        Continuation(prompt, _new_text(tokenizer, ids, new), len(new))
        for prompt, ids, new in zip(prompts, encoded, written, strict=True)
    ]


def read_prompt(path: Path) -> str:
    """The text of a file without its last line break, which is the editor's rather than the text's.

    Raises:
        JaxLMError: the file is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise JaxLMError(f"{path}: not UTF-8 text ({error.reason}): convert it") from error


def _encode(tokenizer: Tokenizer, prompts: Sequence[str]) -> list[list[int]]:
    ids, offsets, _ = tokenizer.encode_batch(prompts)
    start = tokenizer.bos_id if tokenizer.bos_id is not None else tokenizer.eos_id
    encoded = []
    for i in range(len(prompts)):
        prompt = ids[offsets[i] : offsets[i + 1]].tolist()
        if not prompt and start is None:
            raise UsageError(
                "an empty prompt needs a tokenizer with a BOS or EOS token to start from, and "
                "this one has neither: write a prompt"
            )
        encoded.append(prompt or [start])
    return encoded


def _new_text(tokenizer: Tokenizer, prompt: list[int], new: list[int]) -> str:
    """What ``new`` adds to the prompt's text; ids are decoded together, as they are read."""
    return tokenizer.decode([*prompt, *new])[len(tokenizer.decode(prompt)) :]

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
    parse_special: bool = False,
    notice: Callable[[str], None] | None = None,
) -> list[Continuation]:
    """Continue texts in one batch; an empty one starts as a document does (BOS, else EOS).

    Args:
        model: whose vocabulary is the tokenizer's.
        tokenizer: spells prompts and continuations.
        prompts: the same one several times gives different samples of it.
        config: how tokens are drawn, and how many.
        parse_special: read strings such as ``<usr>`` in prompts as special tokens, not as text.
        notice: told once when a prompt is cut or the context is full.

    Raises:
        UsageError: a prompt is empty, and the tokenizer has neither BOS nor EOS.
        JaxLMError: a prompt has a character that the vocabulary cannot spell.
    """
    encoded = _encode(tokenizer, prompts, parse_special)
    written = generate(model, encoded, config, eos_id=tokenizer.eos_id, notice=notice)
    return [
        Continuation(prompt, _new_text(tokenizer, ids, new), len(new))
        for prompt, ids, new in zip(prompts, encoded, written, strict=True)
    ]


def all_prompts(given: Sequence[str], file: Path | None, copies: int) -> list[str]:
    """Prompts given as they are, and the one that a file holds, each so many times.

    Raises:
        JaxLMError: the file is not UTF-8.
        UsageError: there is none, or no copy of it.
    """
    prompts = [*given, *([] if file is None else [read_prompt(file)])]
    if not prompts:
        raise UsageError('nothing to continue: give --prompt "..." or --prompt-file FILE')
    if copies < 1:
        raise UsageError(f"--num-samples must be at least 1, not {copies}")
    return [prompt for prompt in prompts for _ in range(copies)]


def read_prompt(path: Path) -> str:
    """The text of a file without its last line break, which is the editor's rather than the text's.

    Raises:
        JaxLMError: the file is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise JaxLMError(f"{path}: not UTF-8 text ({error.reason}): convert it") from error


def _encode(tokenizer: Tokenizer, prompts: Sequence[str], parse_special: bool) -> list[list[int]]:
    ids, offsets, _ = tokenizer.encode_batch(prompts, parse_special=parse_special)
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

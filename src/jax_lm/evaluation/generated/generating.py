"""Texts written after the inputs of pairs, and compared with their outputs."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jax_lm.documents.base import Cursor
from jax_lm.documents.conversations.templates import (
    DEFAULT,
    ChatTemplate,
    chat_template,
    has_template,
)
from jax_lm.documents.open import open_source
from jax_lm.documents.reading import ReadingOptions
from jax_lm.errors import JaxLMError, UsageError, check_values
from jax_lm.evaluation.devices import usual_mesh
from jax_lm.evaluation.generated.generation_metrics import Generated, GenerationResult, measure
from jax_lm.evaluation.generated.generation_pairs import GenerationPair, asked, generation_pairs
from jax_lm.evaluation.generated.rouge import WordKind
from jax_lm.files.atomic import write_text
from jax_lm.generation.beam import BeamConfig
from jax_lm.generation.continuing import Continued, continue_ids
from jax_lm.generation.decode import DecodeOptions
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.models.decoder import Decoder
from jax_lm.models.encoder_decoder import EncoderDecoder
from jax_lm.pretrained import OpenedModel, open_model
from jax_lm.trackers.console import Progress


@dataclass(frozen=True, kw_only=True)
class GenerationOptions:
    """How texts are written after inputs, and compared."""

    max_new_tokens: int = 128
    """Longest text, in tokens."""
    num_beams: int = 1
    """Hypotheses of a beam search; 1: always the most probable token."""
    batch_size: int = 16
    """Texts written at once."""
    dtype: str = "float32"
    """Of the computation."""
    rouge_words: WordKind = "ascii"
    """Words of ROUGE: runs of ASCII letters and digits, as rouge_score has them, or of any
    script's."""
    generations: Path | None = None
    """Write every text there, as JSON lines."""

    def __post_init__(self) -> None:
        """Refuse counts below 1."""
        counts = {
            f"--{name.replace('_', '-')}": getattr(self, name)
            for name in ("max_new_tokens", "num_beams", "batch_size")
        }
        check_values({flag: (count, count >= 1, "1 or more") for flag, count in counts.items()})

    def describe(self) -> str:
        """How texts are written and compared, in a line."""
        how = "greedy" if self.num_beams == 1 else f"{self.num_beams} beams"
        words = {"ascii": "words as rouge_score has them", "unicode": "words of any script"}
        return (
            f"{how}, at most {self.max_new_tokens} new tokens; ROUGE F1 over "
            f"{words[self.rouge_words]}"
        )


def evaluate_generation(
    model: str,
    specs: Sequence[str],
    options: GenerationOptions,
    reading: ReadingOptions | None = None,
) -> GenerationResult:
    """Write a text after each input of some pairs, and compare it with the output.

    Args:
        model: MODEL, a decoder or an encoder-decoder.
        specs: SPECs of documents with an input and an output, or of conversations.
        options: how texts are written and compared.
        reading: how documents are read; None: all of them, as they are.

    Raises:
        JaxLMError: the model or the text cannot be read, or there are no pairs.
        UsageError: the model is of a kind that writes nothing.
    """
    opened = open_model(model)
    reading = reading or ReadingOptions()
    if reading.chat_template is None and has_template(opened.tokenizer_path):
        reading = replace(reading, chat_template=str(opened.tokenizer_path))
    source = open_source(list(specs), reading)
    documents = (document for _, document in source.read(Cursor(0, 0)))
    pairs = list(generation_pairs(documents))
    if not pairs:
        raise JaxLMError(
            f"{source.name}: no inputs with an output: give records with in_text and out_text, or "
            "conversations"
        )
    template = chat_template(reading.chat_template, opened.tokenizer_path)
    texts = written_texts(opened, pairs, options, template)
    if options.generations is not None:
        lines = [json.dumps(one.to_json(), ensure_ascii=False) + "\n" for one in texts]
        options.generations.parent.mkdir(parents=True, exist_ok=True)
        write_text(options.generations, "".join(lines))
    return GenerationResult(
        model=str(opened.path),
        source=source.name,
        method=options.describe(),
        count=len(texts),
        measures=measure(texts, options.rouge_words),
    )


def written_texts(
    opened: OpenedModel,
    pairs: Sequence[GenerationPair],
    options: GenerationOptions,
    template: ChatTemplate = DEFAULT,
) -> list[Generated]:
    """What the model writes after the input of each pair, in order.

    Raises:
        UsageError: the model is of a kind that writes nothing.
    """
    model, tokenizer = _writing_model(opened), opened.tokenizer
    room = _longest_prompt(model, options.max_new_tokens)
    prompts = [asked(pair, tokenizer, model, template) for pair in pairs]
    alike: dict[tuple[tuple[str, ...], tuple[int, ...]], list[int]] = defaultdict(list)
    for number, prompt in enumerate(prompts):
        alike[prompt.stop, prompt.stop_ids].append(number)
    found: dict[int, Continued] = {}
    with Progress(len(pairs), "texts", label="written").measure_from_start() as progress:
        for (stop, stop_ids), numbers in alike.items():
            written = continue_ids(
                model,
                tokenizer,
                [prompts[number].ids[-room:] for number in numbers],
                _writing(options, stop_ids),
                stop=stop,
                options=DecodeOptions(
                    batch_size=options.batch_size,
                    dtype=options.dtype,
                    mesh=usual_mesh(),
                    advance=progress.update,
                ),
            )
            found |= zip(numbers, written, strict=True)
    return [
        Generated(pair.id, pair.prompt_text, pair.reference, *found[number])
        for number, pair in enumerate(pairs)
    ]


def _writing_model(opened: OpenedModel) -> Decoder | EncoderDecoder:
    model = opened.model
    if not isinstance(model, Decoder | EncoderDecoder):
        raise UsageError(
            f"{opened.path}: {model.config.family} is of kind {model.config.kind}, and only "
            "decoders and encoder-decoders write text"
        )
    return model


def _writing(options: GenerationOptions, stop_ids: tuple[int, ...]) -> SamplingConfig | BeamConfig:
    """The most probable text."""
    new: dict[str, Any] = {"max_new_tokens": options.max_new_tokens, "stop_ids": stop_ids}
    if options.num_beams > 1:
        return BeamConfig(num_beams=options.num_beams, **new)
    return SamplingConfig(temperature=0.0, **new)


def _longest_prompt(model: Decoder | EncoderDecoder, new: int) -> int:
    """Tokens of an input that are kept, its last; half of a decoder's context at least."""
    context: int = model.config.context_length
    if isinstance(model, EncoderDecoder):
        return context
    return max(1, context // 2, context + 1 - new)

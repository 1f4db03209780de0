"""From MODEL to a server that runs."""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from jax_lm.documents.conversations.templates import chat_template, has_template
from jax_lm.errors import JaxLMError, missing_extra
from jax_lm.evaluation.scoring.output_scores import score_outputs
from jax_lm.generation.requests import Request
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.generation.slots import SMALLEST_BUCKET, SlotDecoder
from jax_lm.models.decoder import Decoder
from jax_lm.models.encoder_decoder import EncoderDecoder
from jax_lm.pretrained import OpenedModel, open_model
from jax_lm.serving.decoding.jobs import Decoding
from jax_lm.serving.decoding.scoring import Pair, Scoring
from jax_lm.serving.decoding.worker import Worker
from jax_lm.serving.options import ServeOptions
from jax_lm.serving.served import Served
from jax_lm.tokenizers.base import start_id
from jax_lm.training.compilation import use_compilation_cache

PACKAGES = ("starlette", "uvicorn")


def check_installed() -> None:
    """Refuse to begin what cannot be ended.

    Raises:
        JaxLMError: the packages that speak HTTP are missing.
    """
    for package in PACKAGES:
        if find_spec(package) is None:
            raise missing_extra(package, "serve", "the server")


def load_served(
    spec: str,
    options: ServeOptions,
    *,
    name: str | None = None,
    dtype: str = "float32",
    max_length: int | None = None,
    template: str | None = None,
    token: str | None = None,
) -> Served:
    """Open a model and make it ready to be served.

    Args:
        spec: MODEL, as every verb takes it.
        options: the server's limits.
        name: what clients call it; None: the last part of ``spec``.
        dtype: of the computation and of the cache.
        max_length: tokens of the longest text, prompt included; None: the model's context.
        template: of conversations; None: the model's own, else ``plain``.
        token: what clients have to show; None: nothing.

    Raises:
        JaxLMError: there is no such model, or it does not write texts.
    """
    opened = open_model(spec)
    model = opened.model
    if not isinstance(model, Decoder | EncoderDecoder):
        raise JaxLMError(
            f"{spec}: {model.config.family} is of kind {model.config.kind}, and only decoders and "
            "encoder-decoders write texts"
        )
    decoder = SlotDecoder(
        model,
        num_slots=options.max_concurrent,
        eos_id=opened.tokenizer.eos_id,
        max_length=max_length,
        dtype=dtype,
    )
    use_compilation_cache("auto", _say)
    _warm_up(decoder, start_id(opened.tokenizer) or 0)

    def score(pairs: Sequence[Pair]) -> list[float]:
        return [one.log_prob for one in score_outputs(model, pairs, dtype=dtype)]

    own = has_template(opened.tokenizer_path)
    return Served(
        name=name or _name(spec, opened),
        tokenizer=opened.tokenizer,
        template=chat_template(template, opened.tokenizer_path),
        has_template=own or template is not None,
        worker=Worker(decoder, max_queue=options.max_queue),
        scoring=Scoring(score, max_queue=options.max_queue),
        options=options,
        vocab_size=model.config.vocab_size,
        reads_apart=isinstance(model, EncoderDecoder),
        token=token,
    )


def _name(spec: str, opened: OpenedModel) -> str:
    """The last part of what the user wrote: of ``runs/web/`` it is ``web``."""
    return spec.rstrip("/").rpartition("/")[2] or opened.path.name


def _warm_up(decoder: Decoding, token_id: int) -> None:
    """Write a token in texts of each size, from the longest to the shortest: all slots, and one.

    So clients wait less for the compiler, and memory that is not enough is seen at once.
    """
    length = decoder.context_length
    while length > 1:
        sampling = SamplingConfig(max_new_tokens=length - 1)
        for texts in (decoder.num_slots, 1):
            slots = decoder.admit([Request(prompt=(token_id,), sampling=sampling)] * texts)
            decoder.step()
            for slot in slots:
                decoder.release(slot)
        length = length // 2 if length > SMALLEST_BUCKET else 0


def read_token(path: Path) -> str:
    """The token in a file, without white space around it.

    Raises:
        JaxLMError: the file cannot be read or is empty.
    """
    try:
        token = path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError as error:
        raise JaxLMError(f"{path}: not UTF-8 text; write a token into it") from error
    return checked_token(token, str(path))


def checked_token(token: str, where: str) -> str:
    """A token that fits a header.

    Raises:
        JaxLMError: it is empty or has characters that no header takes.
    """
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise JaxLMError(f"{where}: expected a token of ASCII letters, digits and signs")
    return token


def _say(line: str) -> None:
    print(f"jax-lm serve: {line}", file=sys.stderr)  # noqa: T201 (of the start, before any request)

"""From MODEL to a server that runs."""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from jax_lm.documents.conversations.templates import chat_template, has_template
from jax_lm.errors import JaxLMError, missing_extra
from jax_lm.evaluation.scoring.output_scores import score_outputs
from jax_lm.generation.requests import Request
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.generation.slots import SMALLEST_BUCKET, SlotDecoder
from jax_lm.models.decoder import Decoder
from jax_lm.models.encoder_decoder import EncoderDecoder
from jax_lm.pretrained import open_model
from jax_lm.serving.decoding.jobs import Decoding
from jax_lm.serving.decoding.scoring import Pair, Scoring
from jax_lm.serving.decoding.worker import Worker
from jax_lm.serving.options import ServeOptions
from jax_lm.serving.served import Served
from jax_lm.sharding.mesh import MeshConfig, make_mesh
from jax_lm.sharding.rules import on_mesh, rules_of, state_shardings
from jax_lm.tokenizers.base import Tokenizer, start_id
from jax_lm.training.compilation import use_compilation_cache
from jax_lm.training.freed_memory import give_back_freed_memory

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
    mesh: MeshConfig | None = None,
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
        mesh: how devices share the work; None: all of them write different texts.

    Raises:
        JaxLMError: there is no such model, or it does not write texts.
    """
    use_compilation_cache("auto", _say)
    loaded = _loaded(spec, options.max_concurrent, max_length, dtype, mesh or MeshConfig())
    decoder, tokenizer = loaded.decoder, loaded.tokenizer
    warm_up(decoder, start_id(tokenizer) or 0)
    give_back_freed_memory()  # that compiling took

    def score(pairs: Sequence[Pair]) -> list[float]:
        # The decoder's own model: the weights are in memory once.
        found = score_outputs(decoder.model, pairs, dtype=dtype, mesh=decoder.mesh)
        return [one.log_prob for one in found]

    own = has_template(loaded.tokenizer_path)
    return Served(
        name=name or spec.rstrip("/").rpartition("/")[2] or loaded.path.name,
        tokenizer=tokenizer,
        template=chat_template(template, loaded.tokenizer_path),
        has_template=own or template is not None,
        worker=Worker(decoder, max_queue=options.max_queue),
        scoring=Scoring(score, max_queue=options.max_queue),
        options=options,
        vocab_size=decoder.model.config.vocab_size,
        reads_apart=isinstance(decoder.model, EncoderDecoder),
        token=token,
    )


class _Loaded(NamedTuple):
    """A model that writes; the one that was read is in memory no more."""

    decoder: SlotDecoder
    tokenizer: Tokenizer
    tokenizer_path: Path
    path: Path


def _loaded(
    spec: str, num_slots: int, max_length: int | None, dtype: str, config: MeshConfig
) -> _Loaded:
    mesh, rules = make_mesh(config), rules_of(config)
    with on_mesh(mesh, config):
        opened = open_model(spec, lambda whole: state_shardings(whole, whole, mesh, rules))
    model = opened.model
    if not isinstance(model, Decoder | EncoderDecoder):
        raise JaxLMError(
            f"{spec}: {model.config.family} is of kind {model.config.kind}, and only decoders and "
            "encoder-decoders write texts"
        )
    decoder = SlotDecoder(
        model,
        num_slots=num_slots,
        eos_id=opened.tokenizer.eos_id,
        max_length=max_length,
        dtype=dtype,
        mesh=mesh if mesh.size > 1 else None,
        rules=rules,
    )
    return _Loaded(decoder, opened.tokenizer, opened.tokenizer_path, opened.path)


def warm_up(decoder: Decoding, token_id: int) -> None:
    """Write a token in texts of each size, from the longest to the shortest: all slots, and one.

    So clients wait less for the compiler. First the longest prompts are read, as many as are read
    together, while all other slots hold texts as long: memory that is not enough is seen at once.
    """
    length = decoder.context_length
    at_once = decoder.prompts_at_once(length)
    full = [_asked((token_id,), length)] * (decoder.num_slots - at_once)
    _write([full, [_asked((token_id,) * length, 1)] * at_once], decoder)
    while length > 1:
        for texts in (decoder.num_slots, 1):
            _write([[_asked((token_id,), length - 1)] * texts], decoder)
        length = length // 2 if length > SMALLEST_BUCKET else 0


def _asked(prompt: tuple[int, ...], num_tokens: int) -> Request:
    return Request(prompt=prompt, sampling=SamplingConfig(max_new_tokens=num_tokens))


def _write(admissions: Sequence[Sequence[Request]], decoder: Decoding) -> None:
    """A token of each text; then all slots are free."""
    slots = [slot for requests in admissions for slot in decoder.admit(requests)]
    ended = {one.slot for one in decoder.step() if one.finish is not None}
    for slot in slots:
        if slot not in ended:
            decoder.release(slot)


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

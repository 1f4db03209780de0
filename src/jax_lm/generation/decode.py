"""Continuing prompts: any number of them, through the slots of one decoder."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from jax.sharding import Mesh

from jax_lm.errors import UsageError, check_values
from jax_lm.generation.requests import Drawn, Finish, Request, copies
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.generation.slots import SlotDecoder
from jax_lm.models.decoder import Decoder
from jax_lm.models.encoder_decoder import EncoderDecoder
from jax_lm.sharding.mesh import row_shards

Listen = Callable[[int, int], bool]
"""Told the number of a prompt and its next token, but for the one that ends it; True ends it."""


@dataclass(frozen=True, kw_only=True)
class DecodeOptions:
    """How continuations are computed; what they say does not depend on it."""

    batch_size: int = 16
    """Texts continued at once; where one ends, the next one begins."""
    dtype: str = "float32"
    """Of the computation and of the cache."""
    mesh: Mesh | None = None
    """Texts are split over its rows, heads over its tensor axis; None: the mesh that is set."""
    advance: Callable[[int], object] = lambda ended: None
    """Told how many texts have just ended."""

    def __post_init__(self) -> None:
        """Refuse batches of nothing."""
        check_values({"--batch-size": (self.batch_size, self.batch_size >= 1, "1 or more")})


class Written(NamedTuple):
    """What followed a prompt."""

    ids: list[int]
    """Without the token that ended it."""
    finish: Finish


def generate(
    model: Decoder | EncoderDecoder,
    prompts: Sequence[Sequence[int]],
    config: SamplingConfig,
    *,
    eos_id: int | None,
    notice: Callable[[str], None] | None = None,
    options: DecodeOptions | None = None,
) -> list[list[int]]:
    """Continue prompts of any lengths; arguments and errors as in ``write``.

    Returns:
        The new ids of each prompt, without the token that ended them.
    """
    written = write(model, prompts, config, eos_id=eos_id, notice=notice, options=options)
    return [one.ids for one in written]


def write(
    model: Decoder | EncoderDecoder,
    prompts: Sequence[Sequence[int]],
    config: SamplingConfig,
    *,
    eos_id: int | None,
    notice: Callable[[str], None] | None = None,
    listen: Listen | None = None,
    options: DecodeOptions | None = None,
) -> list[Written]:
    """Continue prompts of any lengths, a batch of them at a time.

    When a decoder's context is full the text goes on from its last half.

    Args:
        model: of an encoder-decoder, prompts are inputs, and continuations its outputs.
        prompts: token ids; none may be empty. The same one several times gives other texts.
        config: how tokens are drawn, and how many; strings that end a text are for ``listen``.
        eos_id: the token that ends a text; None: none does.
        notice: told, at most once each, that a prompt was cut or that a context was full.
        listen: told of every token as it is drawn.
        options: how it is computed.

    Raises:
        UsageError: a prompt is empty.
    """
    if not all(len(prompt) for prompt in prompts):
        raise UsageError("a prompt is empty, and there is nothing to start from: write one")
    if not prompts:
        return []
    options = options or DecodeOptions()
    shards = 1 if options.mesh is None else row_shards(options.mesh)
    decoder = SlotDecoder(
        model,
        num_slots=-(-min(options.batch_size, len(prompts)) // shards) * shards,
        eos_id=eos_id,
        max_length=_enough(model, prompts, config),
        dtype=options.dtype,
        mesh=options.mesh,
    )
    slides = isinstance(model, Decoder)
    writer = _Writer(decoder, prompts, config, notice or _ignore, listen, slides=slides)
    return writer.write(options.advance)


@dataclass
class _Text:
    """A prompt and what follows it."""

    number: int
    copy: int
    ids: list[int]
    """The prompt and, of a decoder, what was drawn."""
    start: int
    """Where in ``ids`` the part that the model sees begins."""
    new: list[int] = field(default_factory=list)
    finish: Finish = "length"


class _Writer:
    """Puts texts into slots until all are written."""

    def __init__(
        self,
        decoder: SlotDecoder,
        prompts: Sequence[Sequence[int]],
        config: SamplingConfig,
        notice: Callable[[str], None],
        listen: Listen | None,
        *,
        slides: bool,
    ) -> None:
        self._decoder, self._config, self._slides = decoder, config, slides
        self._notice, self._listen = notice, listen
        self._said = False
        self._texts = [
            _Text(number, copy, ids := list(map(int, prompt)), self._start_of(ids))
            for number, (prompt, copy) in enumerate(zip(prompts, copies(prompts), strict=True))
        ]

    def write(self, advance: Callable[[int], object]) -> list[Written]:
        """Drive the decoder to the end."""
        waiting, running = deque(self._texts), dict[int, _Text]()
        while waiting or running:
            entering = [waiting.popleft() for _ in range(min(len(waiting), self._decoder.num_free))]
            slots = self._decoder.admit([self._request(text) for text in entering])
            running |= zip(slots, entering, strict=True)
            for drawn in self._decoder.step():
                text = running[drawn.slot]
                if self._ends(text, drawn):
                    self._decoder.release(drawn.slot)
                    advance(1)
                elif drawn.finish is None:
                    continue
                else:
                    self._slide(text)
                    waiting.appendleft(text)
                del running[drawn.slot]
        return [Written(text.new, text.finish) for text in self._texts]

    def _request(self, text: _Text) -> Request:
        return Request(text.ids[text.start :], self._config, text.copy, len(text.new))

    def _ends(self, text: _Text, drawn: Drawn) -> bool:
        """Take a token; whether it is the text's last."""
        if drawn.finish == "stop":
            text.finish = "stop"
            return True
        text.new.append(drawn.id)
        if self._slides:
            text.ids.append(drawn.id)
        if self._listen is not None and self._listen(text.number, drawn.id):
            text.finish = "stop"
            return True
        full = drawn.finish is not None and not self._slides
        return full or len(text.new) >= self._config.max_new_tokens

    def _slide(self, text: _Text) -> None:
        context = self._decoder.context_length
        half = max(1, context // 2)
        text.start = len(text.ids) - half
        if not self._said:
            self._notice(
                f"the context of {context} tokens is full: the text goes on from its last {half}"
            )
        self._said = True

    def _start_of(self, prompt: list[int]) -> int:
        """Where the part of a prompt begins that the model can read."""
        context = self._decoder.context_length
        if len(prompt) <= context:
            return 0
        kept = context
        if self._slides:
            kept = max(1, context // 2, context - self._config.max_new_tokens + 1)
        self._notice(
            f"a prompt of {len(prompt)} tokens is longer than the context of {context}: "
            f"only its last {kept} are read"
        )
        return len(prompt) - kept


def _enough(
    model: Decoder | EncoderDecoder, prompts: Sequence[Sequence[int]], config: SamplingConfig
) -> int | None:
    """Room for the longest of all, where a model knows no limit; None: the model's own length."""
    if isinstance(model, Decoder) or model.longest is not None:
        return None
    context: int = model.config.context_length
    return max(context, config.max_new_tokens + 1, *map(len, prompts))


def _ignore(message: str) -> None:
    """Told what nobody asked for."""

"""What lm-evaluation-harness asks of a model, answered by one of ours; needs nothing of it.

Requests are strings. A pair is cut as the harness cuts it: context and continuation together, and
what goes beyond the context's own tokens is the continuation.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jax.sharding import Mesh

from jax_lm.errors import UsageError, check_values
from jax_lm.evaluation.scoring.output_scores import OutputScore, score_outputs
from jax_lm.evaluation.scoring.windows import windows
from jax_lm.generation.beam import BeamConfig
from jax_lm.generation.continuing import Continued, continue_ids
from jax_lm.generation.decode import DecodeOptions
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.models.decoder import Decoder
from jax_lm.models.encoder import Encoder
from jax_lm.models.encoder_decoder import EncoderDecoder
from jax_lm.pretrained import OpenedModel
from jax_lm.tokenizers.base import start_id

LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
"""Names that tasks have for the longest text; the first that is there counts."""
SETTINGS = ("top_k", "top_p", "min_p", "repetition_penalty", "min_new_tokens", "seed")
"""Settings that are ours by the same name."""
SEARCH_SETTINGS = ("repetition_penalty", "min_new_tokens")
Request = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class HarnessOptions:
    """How requests are answered."""

    batch_size: int = 16
    """Requests at once; the numbers do not depend on it."""
    dtype: str = "float32"
    """Of the computation."""
    max_length: int | None = None
    """Tokens that the model reads at most; None: its context length."""
    max_new_tokens: int = 256
    """Longest text where a task does not say."""
    add_bos: bool = False
    """Begin every text with BOS, as LLaMA's own tokenizer does."""
    parse_special: bool = False
    """Read strings such as <|endoftext|> as special tokens, not as text."""

    def __post_init__(self) -> None:
        """Refuse counts below 1."""
        counts = {name: getattr(self, name) for name in ("batch_size", "max_new_tokens")}
        counts["max_length"] = 1 if self.max_length is None else self.max_length
        check_values({name: (count, count >= 1, "1 or more") for name, count in counts.items()})


class HarnessModel:
    """Scores and writes what the harness asks for."""

    def __init__(
        self, opened: OpenedModel, options: HarnessOptions, mesh: Mesh | None = None
    ) -> None:
        """Take a model.

        Args:
            opened: a decoder or an encoder-decoder, on ``mesh`` where there is one.
            options: how requests are answered.
            mesh: whose devices share the work.

        Raises:
            UsageError: it is of another kind, or its context is shorter than ``max_length``.
        """
        config = opened.model.config
        if isinstance(opened.model, Encoder):
            raise UsageError(
                f"{opened.path}: {config.family} is of kind {config.kind}, and the harness asks "
                "for decoders and encoder-decoders"
            )
        self.opened, self.options, self._mesh = opened, options, mesh
        self.max_length: int = options.max_length or config.context_length
        if self.max_length > config.context_length:
            raise UsageError(
                f"max_length is {self.max_length}, and the model's context is "
                f"{config.context_length}: ask for less"
            )

    @property
    def reads_apart(self) -> bool:
        """Whether input and output are read by stacks of their own."""
        return isinstance(self.opened.model, EncoderDecoder)

    @property
    def first_id(self) -> int:
        """What the first token of a text is conditioned on.

        Raises:
            UsageError: the tokenizer has neither BOS nor EOS.
        """
        first = start_id(self.opened.tokenizer)
        if first is None:
            raise UsageError(
                f"{self.opened.path}: its tokenizer has neither BOS nor EOS, which the harness "
                "puts before a text"
            )
        return first

    def encode(self, text: str, *, framed: bool = True) -> list[int]:
        """Ids of a text; ``framed``: with the special tokens that every input has."""
        tokenizer, options = self.opened.tokenizer, self.options
        encoded = tokenizer.encode_batch([text], parse_special=options.parse_special)
        ids: list[int] = encoded.ids.tolist()
        bos, eos = tokenizer.bos_id, tokenizer.eos_id
        if framed and bos is not None and (options.add_bos or self.reads_apart):
            ids = ids if ids[:1] == [bos] else [bos, *ids]
        if framed and eos is not None and self.reads_apart:
            ids = [*ids, eos]
        return ids

    def scores(self, pairs: Sequence[tuple[list[int], list[int]]]) -> list[OutputScore]:
        """Log-probabilities of continuations of ids."""
        return score_outputs(
            self.opened.model,
            pairs,
            batch_size=self.options.batch_size,
            dtype=self.options.dtype,
            mesh=self._mesh,
            max_length=self.max_length,
        )

    def whole_texts(self, texts: Sequence[str]) -> list[float]:
        """Log-probability of each text, in windows that do not overlap (but for the last)."""
        pairs, owners = [], []
        for number, text in enumerate(texts):
            ids = [self.first_id, *self.encode(text, framed=False)]
            for start, stop, scored in windows(len(ids) - 1, self.max_length, 1):
                border = stop + 1 - scored
                pairs.append((ids[start:border], ids[border : stop + 1]))
                owners.append(number)
        totals = [0.0] * len(texts)
        for owner, score in zip(owners, self.scores(pairs), strict=True):
            totals[owner] += score.log_prob
        return totals

    def write(self, requests: Sequence[Request]) -> list[str]:
        """The text that follows each context, up to a string of its ``until``."""
        alike: dict[tuple[Any, tuple[str, ...]], list[int]] = defaultdict(list)
        for i, (_, asked) in enumerate(requests):
            alike[self._settings(asked)].append(i)
        texts = [""] * len(requests)
        for (config, until), indices in alike.items():
            room = self._room(config.max_new_tokens)
            prompts = [(self.encode(requests[i][0]) or [self.first_id])[-room:] for i in indices]
            found = self._continued(prompts, config, until)
            for i, one in zip(indices, found, strict=True):
                texts[i] = one.text
        return texts

    def _continued(
        self, prompts: list[list[int]], config: Any, until: tuple[str, ...]
    ) -> list[Continued]:
        model = self.opened.model
        assert isinstance(model, Decoder | EncoderDecoder)
        how = DecodeOptions(
            batch_size=self.options.batch_size, dtype=self.options.dtype, mesh=self._mesh
        )
        return continue_ids(model, self.opened.tokenizer, prompts, config, stop=until, options=how)

    def _room(self, new: int) -> int:
        """Tokens of a context that are kept, its last."""
        if self.reads_apart:
            return self.max_length
        if new >= self.max_length:
            raise UsageError(
                f"a task asks for {new} new tokens, and the model's context is "
                f"{self.max_length}: give the task a smaller max_gen_toks"
            )
        return self.max_length - new

    def _settings(self, asked: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:
        """A task's ``generation_kwargs`` in our words, and the strings that end a text."""
        until = asked.get("until") or ()
        until = (until,) if isinstance(until, str) else tuple(text for text in until if text)
        lengths = [asked[name] for name in LENGTHS if asked.get(name) is not None]
        new = int(lengths[0]) if lengths else self.options.max_new_tokens
        given = {name: asked[name] for name in SETTINGS if asked.get(name) is not None}
        beams = int(asked.get("num_beams") or 1)
        if beams > 1:
            known = {key: given[key] for key in SEARCH_SETTINGS if key in given}
            penalty = float(asked.get("length_penalty", 1.0))
            early = bool(asked.get("early_stopping", False))
            return BeamConfig(
                num_beams=beams,
                max_new_tokens=new,
                length_penalty=penalty,
                early_stopping=early,
                **known,
            ), until
        temperature = float(asked.get("temperature") or 0.0)
        if asked.get("do_sample") is False:
            temperature = 0.0
        elif asked.get("do_sample") and "temperature" not in asked:
            temperature = 1.0
        return SamplingConfig(max_new_tokens=new, temperature=temperature, **given), until

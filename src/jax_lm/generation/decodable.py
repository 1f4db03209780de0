"""Models that continue text, and what decoders and encoder-decoders do alike.

A prompt is read once; then tokens go in one at a time, the first of them the prompt's own last one,
or what an encoder-decoder's outputs begin with.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, Int

from jax_lm.errors import UsageError
from jax_lm.models.base import Unembedding
from jax_lm.models.decoder import Decoder
from jax_lm.models.encoder_decoder import EncoderDecoder, Seq2SeqCache
from jax_lm.models.layers.kv_cache import KVCache
from jax_lm.models.layers.low_rank import merged
from jax_lm.models.layers.placement import placed_parameters
from jax_lm.models.precision import in_dtype
from jax_lm.models.unstacked import unstacked

Cache = KVCache | Seq2SeqCache
"""What a model remembers of a batch of texts; the first axis of every array is the row."""
Model = TypeVar("Model", bound=Decoder | EncoderDecoder)


class Decodable(Protocol):
    """What decoding needs of a model: decoders and encoder-decoders have it."""

    @property
    def config(self) -> Any:
        """Its configuration."""
        ...

    @property
    def unembedding(self) -> Unembedding:
        """The output matrix."""
        ...

    def decode(self, input_ids: Int[Array, "batch seq"], cache: Any) -> Any:
        """Final hidden states of tokens that continue what the cache holds, and the new cache."""
        ...


class CacheShape(NamedTuple):
    """Room in a cache."""

    rows: int
    slots: int
    """Tokens of a text; of an encoder-decoder, of its output."""
    memory: int
    """Tokens of an encoder-decoder's input; 0 for a decoder."""


def for_decoding(model: Model, dtype: DTypeLike) -> Model:
    """The model in the dtype of the computation, with its blocks apart, and low rank merged."""
    prepared: Model = jax.jit(_for_decoding, static_argnames="dtype")(model, dtype=str(dtype))
    return prepared


def longest_text(model: Decodable, max_length: int | None) -> int:
    """Tokens that fit in a text, or in an encoder-decoder's input and in its output.

    Args:
        model: says what it can.
        max_length: asked for; None: the context length of its configuration.

    Raises:
        UsageError: it is asked for more than the model can, or for nothing.
    """
    context: int = model.config.context_length
    wanted = context if max_length is None else max_length
    limit = model.longest if isinstance(model, EncoderDecoder) else context
    if wanted < 1 or (limit is not None and wanted > limit):
        most = "1 or more" if limit is None else f"from 1 to the model's {limit}"
        raise UsageError(f"the longest text is {wanted} tokens, expected {most}")
    return wanted


def split_prompt(model: Decodable, prompt: Sequence[int]) -> tuple[Sequence[int], int]:
    """What of a prompt is read at once, and the token that decoding begins with.

    Raises:
        UsageError: an encoder-decoder's configuration does not say what outputs begin with.
    """
    if not isinstance(model, EncoderDecoder):
        return prompt[:-1], prompt[-1]
    start = model.config.decoder_start_id
    if start is None:
        raise UsageError(
            "the model's configuration has no decoder_start_id, with which outputs begin: set it"
        )
    return prompt, start


def empty_cache(model: Decodable, shape: CacheShape) -> Cache:
    """A cache that remembers nothing, in the dtype of the model's weights."""
    dtype = model.unembedding.weight.dtype
    if isinstance(model, Decoder):
        return model.empty_cache(shape.rows, shape.slots, dtype)
    assert isinstance(model, EncoderDecoder)
    nothing = jnp.zeros((shape.rows, shape.memory, model.config.embed_dim), dtype)
    segments = jnp.zeros((shape.rows, shape.memory), jnp.int32)
    return model.start_cache(nothing, segments, shape.slots, dtype)


def read_prompts(
    model: Decodable, input_ids: Int[Array, "batch seq"], lengths: Int[Array, "batch"]
) -> Cache:
    """A cache of what is read at once of prompts, padded on the right to one length.

    Args:
        model: as ``for_decoding`` makes it.
        input_ids: as ``split_prompt`` says.
        lengths: the real ones, which may be 0.
    """
    dtype, (rows, seq) = model.unembedding.weight.dtype, input_ids.shape
    if isinstance(model, Decoder):
        _, cache = model.decode(input_ids, model.empty_cache(rows, seq, dtype))
        return cache._replace(lengths=lengths)
    assert isinstance(model, EncoderDecoder)
    segments = (jnp.arange(seq)[None, :] < lengths[:, None]).astype(jnp.int32)
    return model.start_cache(model.encode(input_ids, segments), segments, 1, dtype)


def next_logits(
    model: Decodable, last: Int[Array, "batch"], cache: Cache
) -> tuple[Float[Array, "batch vocab"], Cache]:
    """Logits of the token after each row's newest one, which is not in the cache yet."""
    hidden, cache = model.decode(last[:, None], cache)
    return model.unembedding.logits(hidden[:, 0]), cache


def matmul_precision(model: Decodable) -> Any:
    """A context: GPUs would multiply float32 matrices in fewer bits unless told otherwise."""
    exact = model.unembedding.weight.dtype == jnp.float32
    return jax.default_matmul_precision("float32" if exact else "default")


def _for_decoding(model: Model, dtype: str) -> Model:
    apart: Model = unstacked(in_dtype(merged(placed_parameters(model)), dtype))
    return apart

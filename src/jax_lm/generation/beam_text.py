"""The best continuations of texts, by beam search."""

from collections.abc import Sequence

from jax_lm.generation.beam import BeamConfig
from jax_lm.generation.continuing import continue_ids
from jax_lm.generation.decode import DecodeOptions
from jax_lm.generation.text import Continuation, encode_prompts
from jax_lm.models.decoder import Decoder
from jax_lm.models.encoder_decoder import EncoderDecoder
from jax_lm.tokenizers.base import Tokenizer


def search_texts(
    model: Decoder | EncoderDecoder,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    config: BeamConfig,
    *,
    stop: tuple[str, ...] = (),
    parse_special: bool = False,
    options: DecodeOptions | None = None,
) -> list[Continuation]:
    """The best continuations of each prompt, ``config.num_returns`` after one another.

    Args:
        model: whose vocabulary is the tokenizer's; an encoder-decoder reads the prompt, between
            BOS and EOS, and writes its output.
        tokenizer: spells prompts and continuations.
        prompts: an empty one starts as a document does (BOS, else EOS).
        config: how continuations are searched for.
        stop: text that a continuation is cut at; the search itself goes on.
        parse_special: read strings such as ``<usr>`` in prompts as special tokens, not as text.
        options: batch size and dtype.

    Raises:
        UsageError: a prompt is empty, and the tokenizer has neither BOS nor EOS; or one is longer
            than the model's context.
        JaxLMError: a prompt has a character that the vocabulary cannot spell.
    """
    apart = isinstance(model, EncoderDecoder)
    encoded = encode_prompts(tokenizer, prompts, parse_special=parse_special, inputs=apart)
    found = continue_ids(model, tokenizer, encoded, config, stop=stop, options=options)
    rows = [prompt for prompt in prompts for _ in range(config.num_returns)]
    return [Continuation(prompt, *one) for prompt, one in zip(rows, found, strict=True)]

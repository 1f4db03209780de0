"""From one layout of a model to another, and what is said of it."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jax_lm.errors import JaxLMError, UsageError
from jax_lm.huggingface.directory import (
    CONFIG_FILE,
    refuse_larger,
    refuse_occupied,
    write_directory,
)
from jax_lm.huggingface.export import SHARD_SIZE, Bytes
from jax_lm.huggingface.model_card import model_card
from jax_lm.huggingface.resizing import resize_vocabulary
from jax_lm.huggingface.tensor_files import read_json
from jax_lm.models.forward import Model
from jax_lm.models.registry import count_parameters
from jax_lm.pretrained.finding import FoundModel, find_model
from jax_lm.pretrained.own_directory import write_own
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.finding import LAYOUTS
from jax_lm.tokenizers.pretrained import load_tokenizer

Target = Literal["huggingface", "jax-lm"]
NAMES = {
    "huggingface": "Hugging Face directory",
    "jax-lm": "jax-lm's arrays",
    "llama": "LLaMA's own files",
}


@dataclass(frozen=True, kw_only=True)
class ConvertOptions:
    """What the result is to be."""

    to: Target | None = None
    """Layout of the result; default: jax-lm for a Hugging Face directory or name, else
    huggingface."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of the stored weights, in Hugging Face's layout; jax-lm's own is float32."""
    tokenizer: str | None = None
    """Tokenizer to put beside the weights; default: the model's own."""
    resize_vocabulary: bool = False
    """Make the model's vocabulary as large as the tokenizer's: new rows are the mean of the others,
    rows beyond it are cut."""
    overwrite: bool = False
    """Replace an earlier model in OUTPUT."""


def convert(
    spec: str,
    output: Path,
    options: ConvertOptions,
    *,
    max_shard_size: Bytes = SHARD_SIZE,
    say: Callable[[str], None] = print,
) -> None:
    """Read a model in any layout, write it in another, read that back and compare.

    Args:
        spec: MODEL, as every verb takes it.
        output: the directory to write.
        options: what to write.
        max_shard_size: most that one safetensors file holds.
        say: is told what was done, line by line.

    Raises:
        JaxLMError: there is no such model, ``output`` is taken, or the tokenizer does not fit.
    """
    _refuse_taken(output, options)
    found = find_model(spec)
    to = options.to or _other(found)
    if to == "jax-lm" and options.dtype != "float32":
        raise UsageError("--dtype is for --to huggingface: jax-lm's own arrays are float32")
    tokenizer = _tokenizer(found, options)
    model = found.read()
    say(f"model      {_described(model)}, from {NAMES[found.layout]} {found.path}")
    model = _fitted(model, tokenizer, options, str(found.path), say)
    if to == "jax-lm":
        write_own(model, tokenizer, output)
    else:
        write_directory(
            model,
            tokenizer,
            output,
            card=model_card(output.name, model, training={}, evaluation={}, dtype=options.dtype),
            dtype=options.dtype,
            max_shard_size=max_shard_size,
            token_ids=_stored_ids(found) if tokenizer is None else None,
        )
    say(f"written    {NAMES[to]} {output}: {_sizes(output)}, weights in {options.dtype}")
    say("verified   read back: every array equal bit by bit, configuration and tokenizer equal")


def _other(found: FoundModel) -> Target:
    return "jax-lm" if found.layout == "huggingface" and not found.of_run else "huggingface"


def _refuse_taken(output: Path, options: ConvertOptions) -> None:
    refuse_occupied(output)
    if not options.overwrite and output.is_dir() and any(output.iterdir()):
        raise JaxLMError(f"{output}: exists already; name another OUTPUT or add --overwrite")


def _tokenizer(found: FoundModel, options: ConvertOptions) -> Tokenizer | None:
    if options.tokenizer is not None:
        return load_tokenizer(options.tokenizer)
    there = any(any(found.tokenizer.glob(layout)) for layout in LAYOUTS)
    return load_tokenizer(found.tokenizer) if there else None


def _fitted(
    model: Model,
    tokenizer: Tokenizer | None,
    options: ConvertOptions,
    where: str,
    say: Callable[[str], None],
) -> Model:
    """The model, with its vocabulary resized if that was asked for."""
    if tokenizer is None:
        say("tokenizer  none there, and none written; --tokenizer names one")
        return model
    has, wanted = model.config.vocab_size, tokenizer.vocab_size
    assert has is not None
    if options.resize_vocabulary and wanted != has:
        does = (
            f"{wanted - has:,} new rows, each the mean of the others"
            if wanted > has
            else f"the last {has - wanted:,} rows cut"
        )
        say(f"tokenizer  {wanted:,} ids; the model had {has:,}: {does}")
        resized: Model = resize_vocabulary(model, wanted)
        return resized
    refuse_larger(tokenizer, has, where)
    spare = f"; the model has {has - wanted:,} more, which no text uses" if wanted < has else ""
    say(f"tokenizer  {wanted:,} ids{spare}")
    return model


def _stored_ids(found: FoundModel) -> dict[str, int | None]:
    """The special tokens' ids that a model without a tokenizer says it has."""
    path = found.path / CONFIG_FILE
    if found.layout != "huggingface" or not path.is_file():
        return {}
    values = read_json(path)
    return {key: value for key, value in values.items() if key.endswith("_token_id")}


def _described(model: Model) -> str:
    config = model.config
    shape = dataclasses.asdict(config)
    return (
        f"{config.family}, {count_parameters(config):,} parameters "
        f"({shape['num_layers']} layers, width {shape['embed_dim']})"
    )


def _sizes(output: Path) -> str:
    files = [path for path in output.rglob("*") if path.is_file()]
    return f"{len(files)} files, {sum(path.stat().st_size for path in files):,} bytes"

"""A model in our own layout: ``config.json``, ``model/`` (arrays), ``tokenizer/``, checksums.

It is laid out as a step checkpoint is, without what belongs to training.
"""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jax_lm.checkpoints import (
    read_config,
    save_model,
    stored_arrays,
    verify_checkpoint,
)
from jax_lm.checkpoints.restoring import restore_overlaid
from jax_lm.dataclass_json import from_json, to_json
from jax_lm.errors import JaxLMError
from jax_lm.huggingface.convert import ShardingOf, leaves_by_path
from jax_lm.huggingface.replacing import replacing
from jax_lm.models.forward import Model
from jax_lm.models.low_rank import LoraConfig, merged, with_low_rank
from jax_lm.models.registry import FAMILIES, abstract_model
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.pretrained import load_tokenizer

ARRAYS = "model"
AVERAGE = "average"
TOKENIZER = "tokenizer"


def read_own(directory: Path, sharding_of: ShardingOf | None = None) -> Any:
    """The model of a step checkpoint or of a directory that ``write_own`` made.

    Where training kept an average of the weights, that is the model; low-rank factors are merged.

    Args:
        directory: what was written.
        sharding_of: where the arrays go; None: the default device.

    Raises:
        JaxLMError: files are damaged, or the model is not one we know.
    """
    verify_checkpoint(directory)
    model = abstract_model(read_own_config(directory))
    lora = from_json(LoraConfig, read_config(directory).get("lora", {}), str(directory))
    if lora.rank:
        model = jax.eval_shape(partial(with_low_rank, config=lora), jax.random.key(0), model)
    if sharding_of is not None:
        model = jax.tree.map(_placed, model, sharding_of(model))
    read = restore_overlaid((directory / AVERAGE, directory / ARRAYS), model)
    return merged(read) if lora.rank else read


def _placed(leaf: Any, sharding: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)


def read_own_config(directory: Path) -> Any:
    """The configuration of such a model.

    Raises:
        JaxLMError: it is not of a model we know.
    """
    where = directory / "config.json"
    values = read_config(directory).get("model")
    if not isinstance(values, dict) or values.get("family") not in FAMILIES:
        raise JaxLMError(f"{where}: expected model.family to be one of {', '.join(FAMILIES)}")
    return from_json(FAMILIES[values["family"]].config, values, str(where))


def write_own(model: Model, tokenizer: Tokenizer | None, output: Path) -> None:
    """Write a model; ``output`` appears whole, once it was read back and compared bit by bit.

    Raises:
        JaxLMError: ``output`` holds something else, or what is read back differs.
    """
    with replacing(output) as directory:
        if tokenizer is not None:
            tokenizer.save(directory / TOKENIZER)
        save_model(directory, model=model, config={"model": to_json(model.config)})
        _verify(model, tokenizer, directory)


def _verify(model: Model, tokenizer: Tokenizer | None, directory: Path) -> None:
    verify_checkpoint(directory)
    config, written = read_own_config(directory), leaves_by_path(model)
    differing = [
        path
        for path, found in stored_arrays(directory / ARRAYS, abstract_model(model.config))
        if not _same_bits(np.asarray(written[path]), np.asarray(found))
    ]
    if differing or model.config != config:
        raise JaxLMError(
            f"{directory}: read back, the model differs from what was written "
            f"({', '.join(differing) or 'config.json'}); the conversion was given up"
        )
    stored = None if tokenizer is None else load_tokenizer(directory / TOKENIZER)
    if stored is not None and tokenizer is not None:
        _refuse_other_tokenizer(directory, tokenizer, stored)


def _same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    bits = np.dtype(f"u{one.dtype.itemsize}")
    same_kind = (one.shape, one.dtype) == (other.shape, other.dtype)
    return same_kind and np.array_equal(one.view(bits), other.view(bits))


def _refuse_other_tokenizer(directory: Path, written: Tokenizer, read: Tokenizer) -> None:
    if written.fingerprint() != read.fingerprint():
        raise JaxLMError(
            f"{directory}: read back, the tokenizer differs from what was written; "
            "the conversion was given up"
        )

"""A model as a Hugging Face directory, which transformers loads as it is."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
from jaxtyping import DTypeLike

from jax_lm.errors import JaxLMError
from jax_lm.huggingface.convert import ShardingOf, StoredWeights, read_model
from jax_lm.huggingface.export import SHARD_SIZE, Bytes, differing_arrays, write_weights
from jax_lm.huggingface.families import config_from_json, config_to_json, family_for, family_of
from jax_lm.huggingface.opening import open_tensors
from jax_lm.huggingface.replacing import replacing
from jax_lm.huggingface.tensor_files import read_json
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.pretrained import load_tokenizer

CONFIG_FILE = "config.json"
GENERATION_FILE = "generation_config.json"
CARD_FILE = "README.md"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"


def load_directory(
    path: Path, *, dtype: DTypeLike = jnp.float32, sharding_of: ShardingOf | None = None
) -> tuple[Any, Tokenizer]:
    """The model and the tokenizer of a directory.

    Args:
        path: the directory.
        dtype: of the model's arrays, whatever is stored.
        sharding_of: where the arrays go; None: the default device.

    Raises:
        JaxLMError: a file is missing or damaged, the model is not one we know, or weights,
            configuration and tokenizer do not belong together.
    """
    config = load_config(path)
    tokenizer = load_tokenizer(path)
    refuse_larger(tokenizer, config.vocab_size, str(path))
    return load_model(path, dtype=dtype, sharding_of=sharding_of), tokenizer


def load_model(
    path: Path, *, dtype: DTypeLike = jnp.float32, sharding_of: ShardingOf | None = None
) -> Any:
    """The model of a directory; never more than one array of it is held twice.

    Raises:
        JaxLMError: as ``load_directory``.
    """
    config = load_config(path)
    family = family_of(read_json(path / CONFIG_FILE), str(path / CONFIG_FILE))
    files = open_tensors(path)
    config = family.with_weights(config, files.infos.keys())
    return read_model(files, family, config, dtype=dtype, sharding_of=sharding_of)


def load_config(place: Path) -> Any:
    """Our configuration of a directory or of a config.json.

    Raises:
        JaxLMError: there is none, or it asks for what is not implemented.
    """
    path = place / CONFIG_FILE if place.is_dir() else place
    if not path.is_file():
        raise JaxLMError(f"{place}: no {CONFIG_FILE}: this is not a Hugging Face model directory")
    return config_from_json(read_json(path), str(path))


def refuse_larger(tokenizer: Tokenizer, vocab_size: int, where: str) -> None:
    """Refuse a tokenizer with ids that a model does not embed.

    Raises:
        JaxLMError: it has.
    """
    if tokenizer.vocab_size > vocab_size:
        raise JaxLMError(
            f"{where}: the tokenizer has {tokenizer.vocab_size:,} ids, but the model embeds only "
            f"{vocab_size:,}: they do not belong together, or jax-lm convert --resize-vocabulary "
            "makes room"
        )


def write_directory(
    model: Any,
    tokenizer: Tokenizer | None,
    output: Path,
    *,
    card: str,
    dtype: str = "float32",
    max_shard_size: Bytes = SHARD_SIZE,
    token_ids: Mapping[str, int | None] | None = None,
) -> None:
    """Write config, weights, tokenizer and model card; ``output`` appears whole or not at all.

    What was written is read back and compared bit by bit first.

    Args:
        model: what to write.
        tokenizer: the one the model was trained with; None: there is none to write.
        output: a directory; an earlier export there is replaced.
        card: the model card (Markdown).
        dtype: of the stored weights, a key of ``STORED_DTYPES``.
        max_shard_size: most that one file of weights holds.
        token_ids: such as ``bos_token_id``; None: the tokenizer's.

    Raises:
        JaxLMError: ``output`` holds something that is not an export.
    """
    refuse_occupied(output)
    family = family_for(model.config)
    ids = token_ids_of(tokenizer) if token_ids is None else token_ids
    with replacing(output) as directory:
        _write_configs(model.config, ids, dtype, directory)
        write_weights(model, family, directory, dtype=dtype, max_shard_size=max_shard_size)
        if tokenizer is not None:
            _write_tokenizer(tokenizer, directory, model.config.context_length)
        (directory / CARD_FILE).write_text(card, encoding="utf-8")
        _verify(model, tokenizer, directory)


def token_ids_of(tokenizer: Tokenizer | None) -> dict[str, int | None]:
    """The ids of a tokenizer's special tokens under their keys in config.json."""
    if tokenizer is None:
        return {}
    # Explicit nulls: where a key is absent transformers takes the ids of the published models.
    return {
        "bos_token_id": tokenizer.bos_id,
        "eos_token_id": tokenizer.eos_id,
        "pad_token_id": tokenizer.pad_id,
    }


def _write_configs(config: Any, ids: Mapping[str, int | None], dtype: str, directory: Path) -> None:
    values = {"dtype": dtype, **ids, **config_to_json(config)}
    generation = {key: value for key, value in values.items() if key.endswith("_token_id")}
    _write_json(directory / CONFIG_FILE, values)
    _write_json(directory / GENERATION_FILE, generation)


def _write_tokenizer(tokenizer: Tokenizer, directory: Path, context_length: int) -> None:
    tokenizer.save(directory)
    path = directory / TOKENIZER_CONFIG_FILE
    values = read_json(path) if path.is_file() else {}
    _write_json(path, {**values, "model_max_length": context_length})


def _write_json(path: Path, values: Mapping[str, Any]) -> None:
    text = json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def _verify(model: Any, tokenizer: Tokenizer | None, directory: Path) -> None:
    given_up = "the export was given up"
    config = load_config(directory)
    written, read = config_to_json(model.config), config_to_json(config)
    wrong = [key for key in written.keys() | read.keys() if written.get(key) != read.get(key)]
    if wrong:
        raise JaxLMError(
            f"{directory}: read back, these keys of {CONFIG_FILE} differ from what was written: "
            f"{', '.join(sorted(wrong))}; {given_up}"
        )
    family = family_for(config)
    stored = StoredWeights(open_tensors(directory), family, config)
    differing = differing_arrays(model, family, stored)
    if differing:
        raise JaxLMError(
            f"{directory}: read back, these arrays differ from what was written: "
            f"{', '.join(sorted(differing))}; {given_up}"
        )
    if tokenizer is not None and load_tokenizer(directory).fingerprint() != tokenizer.fingerprint():
        raise JaxLMError(
            f"{directory}: read back, the tokenizer differs from what was written; {given_up}"
        )


def refuse_occupied(output: Path) -> None:
    """Refuse to write over what is not an exported model.

    Raises:
        JaxLMError: there is something else.
    """
    if not output.exists():
        return
    if not output.is_dir():
        raise JaxLMError(f"{output}: a file is in the way: give a directory")
    if any(output.iterdir()) and not (output / CONFIG_FILE).is_file():
        raise JaxLMError(
            f"{output}: the directory holds something other than an exported model: "
            "give another one, or empty it"
        )

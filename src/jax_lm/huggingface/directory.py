"""A model as a Hugging Face directory, which transformers loads as it is."""

import json
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from jax_lm.errors import JaxLMError
from jax_lm.huggingface import gpt2
from jax_lm.huggingface.convert import leaves_by_path
from jax_lm.huggingface.tensor_files import SINGLE_FILE, TensorFiles, read_json
from jax_lm.models.gpt2 import GPT2
from jax_lm.preprocessing.atomic import sync
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.pretrained import load_tokenizer

CONFIG_FILE = "config.json"
GENERATION_FILE = "generation_config.json"
CARD_FILE = "README.md"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"


def load_directory(path: Path) -> tuple[GPT2, Tokenizer]:
    """The model (float32) and the tokenizer of a directory.

    Raises:
        JaxLMError: a file is missing or damaged, the model is not one we know, or weights,
            configuration and tokenizer do not belong together.
    """
    model = load_model(path)
    tokenizer = load_tokenizer(path)
    if tokenizer.vocab_size > model.token_embedding.shape[0]:
        raise JaxLMError(
            f"{path}: the tokenizer has {tokenizer.vocab_size} ids, but the model embeds only "
            f"{model.token_embedding.shape[0]}: they do not belong together"
        )
    return model, tokenizer


def load_model(path: Path) -> GPT2:
    """The model of a directory, float32, whatever dtype is stored.

    Raises:
        JaxLMError: as ``load_directory``.
    """
    config_path = path / CONFIG_FILE
    if not config_path.is_file():
        raise JaxLMError(f"{path}: no {CONFIG_FILE}: this is not a Hugging Face model directory")
    values = read_json(config_path)
    _refuse_unknown(values, config_path)
    config = gpt2.config_from_json(values, str(config_path))
    return gpt2.read_model(TensorFiles(path), config)


def write_directory(model: GPT2, tokenizer: Tokenizer, output: Path, *, card: str) -> None:
    """Write config, weights, tokenizer and model card; ``output`` appears whole or not at all.

    What was written is read back and compared bit by bit first.

    Args:
        model: its weights are stored as float32.
        tokenizer: the one the model was trained with.
        output: a directory; an earlier export there is replaced.
        card: the model card (Markdown).

    Raises:
        JaxLMError: ``output`` holds something that is not an export.
    """
    _refuse_occupied(output)
    output.parent.mkdir(parents=True, exist_ok=True)
    with _replacing(output) as directory:
        _write_configs(model, tokenizer, directory)
        save_file(gpt2.model_tensors(model), directory / SINGLE_FILE, metadata={"format": "pt"})
        _write_tokenizer(tokenizer, directory, model.config.context_length)
        (directory / CARD_FILE).write_text(card, encoding="utf-8")
        _verify(model, tokenizer, directory)


def _write_configs(model: GPT2, tokenizer: Tokenizer, directory: Path) -> None:
    # Explicit nulls: where a key is absent transformers takes the ids of OpenAI's vocabulary.
    ids = {
        "bos_token_id": tokenizer.bos_id,
        "eos_token_id": tokenizer.eos_id,
        "pad_token_id": tokenizer.pad_id,
    }
    _write_json(directory / CONFIG_FILE, {**gpt2.config_to_json(model.config), **ids})
    _write_json(directory / GENERATION_FILE, ids)


def _write_tokenizer(tokenizer: Tokenizer, directory: Path, context_length: int) -> None:
    tokenizer.save(directory)
    path = directory / TOKENIZER_CONFIG_FILE
    values = read_json(path) if path.is_file() else {}
    _write_json(path, {**values, "model_max_length": context_length})


def _write_json(path: Path, values: Mapping[str, Any]) -> None:
    text = json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def _verify(model: GPT2, tokenizer: Tokenizer, directory: Path) -> None:
    read_model, read_tokenizer = load_directory(directory)
    written, read = leaves_by_path(model), leaves_by_path(read_model)
    differing = [
        path
        for path in written.keys() | read.keys()
        if path not in written or path not in read or not _same(written[path], read[path])
    ]
    if differing:
        raise JaxLMError(
            f"{directory}: read back, these arrays differ from what was written: "
            f"{', '.join(sorted(differing))}; the export was given up"
        )
    if read_tokenizer.fingerprint() != tokenizer.fingerprint():
        raise JaxLMError(
            f"{directory}: read back, the tokenizer differs from what was written; "
            "the export was given up"
        )


def _same(written: Any, read: Any) -> bool:
    return np.asarray(written, np.float32).tobytes() == np.asarray(read).tobytes()


def _refuse_unknown(values: Mapping[str, Any], where: Path) -> None:
    model_type = values.get("model_type")
    if model_type != gpt2.MODEL_TYPE:
        raise JaxLMError(
            f"{where}: model_type is {model_type!r}; the families that can be read: "
            f"{gpt2.MODEL_TYPE}"
        )
    architectures = values.get("architectures") or list(gpt2.READABLE_ARCHITECTURES)
    if not isinstance(architectures, list):
        raise JaxLMError(f"{where}: architectures must be a list of names, not {architectures!r}")
    if not set(architectures) & set(gpt2.READABLE_ARCHITECTURES):
        raise JaxLMError(
            f"{where}: architectures is {architectures!r}; those that can be read: "
            f"{', '.join(gpt2.READABLE_ARCHITECTURES)}"
        )


def _refuse_occupied(output: Path) -> None:
    if not output.exists():
        return
    if not output.is_dir():
        raise JaxLMError(f"{output}: a file is in the way: give a directory")
    if any(output.iterdir()) and not (output / CONFIG_FILE).is_file():
        raise JaxLMError(
            f"{output}: the directory holds something other than an exported model: "
            "give another one, or empty it"
        )


@contextmanager
def _replacing(output: Path) -> Iterator[Path]:
    """Give a temporary directory beside ``output``; on success it takes that name."""
    token = secrets.token_hex(4)
    temporary = output.with_name(f".tmp-{token}-{output.name}")
    temporary.mkdir()
    try:
        yield temporary
        for path in [*temporary.iterdir(), temporary]:
            sync(path)
        _take_place(temporary, output, output.with_name(f".tmp-{token}-old-{output.name}"))
        sync(output.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _take_place(temporary: Path, output: Path, aside: Path) -> None:
    if not output.exists():
        temporary.rename(output)
        return
    foreign = {path.name for path in output.iterdir()} - {path.name for path in temporary.iterdir()}
    if foreign:
        raise JaxLMError(
            f"{output}: replacing the earlier export would delete {', '.join(sorted(foreign))}: "
            "move that away, or give another directory"
        )
    output.rename(aside)
    temporary.rename(output)
    shutil.rmtree(aside)

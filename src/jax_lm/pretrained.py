"""MODEL, as every verb takes it: a run directory, ``RUN@STEP`` or a Hugging Face directory."""

import sys
from pathlib import Path
from typing import NamedTuple

import jax

from jax_lm.checkpoints import (
    list_steps,
    newest_valid,
    read_config,
    read_progress,
    restore_arrays,
    step_directory,
    verify_checkpoint,
)
from jax_lm.dataclass_json import from_json
from jax_lm.errors import JaxLMError
from jax_lm.huggingface.directory import load_directory
from jax_lm.models.gpt2 import GPT2
from jax_lm.models.registry import FAMILIES
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.pretrained import load_tokenizer


class OpenedModel(NamedTuple):
    """A model ready to use, its tokenizer, and the directory both were read from."""

    model: GPT2
    tokenizer: Tokenizer
    path: Path


def open_model(spec: str) -> OpenedModel:
    """Load a model.

    Args:
        spec: a run directory (its ``final/``, else its newest checkpoint), ``RUN@STEP``, or a
            directory with ``config.json`` and ``model.safetensors``.

    Raises:
        JaxLMError: there is no such model, or its files are damaged.
    """
    run, at, step = spec.rpartition("@")
    if at and step.isdigit():
        return _open_step(Path(run), int(step))
    path = Path(spec)
    if not path.is_dir():
        raise JaxLMError(f"{spec}: no such directory: give a run directory or a Hugging Face one")
    if (path / "final").is_dir():
        return OpenedModel(*load_directory(path / "final"), path / "final")
    newest = newest_valid(path / "checkpoints", _warn)
    if newest is not None:
        return _open_step(path, read_progress(newest).step)
    return OpenedModel(*load_directory(path), path)


def _warn(line: str) -> None:
    print(f"jax-lm: {line}", file=sys.stderr)  # noqa: T201 (a damaged checkpoint is never passed over in silence)


def _open_step(run: Path, step: int) -> OpenedModel:
    directory = step_directory(run / "checkpoints", step)
    if not directory.is_dir():
        known = ", ".join(map(str, list_steps(run / "checkpoints"))) or "none"
        raise JaxLMError(f"{run}@{step}: no such checkpoint (steps with one: {known})")
    verify_checkpoint(directory)
    values = read_config(directory)["model"]
    family = FAMILIES[values["family"]]
    config = from_json(family.config, values, str(directory / "config.json"))
    like = jax.eval_shape(lambda key: family.model.init(key, config), jax.random.key(0))
    model = restore_arrays(directory / "model", like)
    return OpenedModel(model, load_tokenizer(run / "tokenizer"), directory)

"""MODEL, as every verb takes it: found, read, and checked against its tokenizer."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax

from jax_lm.checkpoints import (
    list_steps,
    newest_valid,
    read_best,
    read_progress,
    step_directory,
)
from jax_lm.errors import JaxLMError
from jax_lm.huggingface.convert import ShardingOf, read_model
from jax_lm.huggingface.directory import load_config, load_model, refuse_larger
from jax_lm.huggingface.families import config_from_json, family_of
from jax_lm.huggingface.hub import model_directory
from jax_lm.huggingface.official_llama import PARAMS_FILE, OfficialLlama, is_official
from jax_lm.models.decoder import Decoder
from jax_lm.models.forward import Model
from jax_lm.pretrained.own_directory import ARRAYS, TOKENIZER, read_own, read_own_config
from jax_lm.pretrained.remote_models import local_model
from jax_lm.remote.directory import is_object_store
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.hub import is_hub_name
from jax_lm.tokenizers.pretrained import load_tokenizer

Layout = Literal["huggingface", "jax-lm", "llama"]
EXPECTED = (
    "give a run directory, RUN@STEP, a Hugging Face directory, a name on the Hugging Face hub, or "
    "a directory that jax-lm convert wrote; directories may be URLs such as gs://bucket/run"
)


class OpenedModel(NamedTuple):
    """A model ready to use, its tokenizer, and the directories they were read from."""

    model: Model
    tokenizer: Tokenizer
    path: Path
    tokenizer_path: Path


@dataclass(frozen=True)
class FoundModel:
    """Where a model lies; nothing of it is read yet."""

    layout: Layout
    path: Path
    """The directory of its weights."""
    tokenizer: Path
    """The directory where its tokenizer would be."""
    of_run: bool = False
    """Whether a run of ours made it."""

    def config(self) -> Any:
        """The configuration of the model.

        Raises:
            JaxLMError: it is damaged, or not of a model we know.
        """
        if self.layout == "jax-lm":
            return read_own_config(self.path)
        if self.layout == "llama":
            values = OfficialLlama(self.path).config_values
            return config_from_json(values, str(self.path / PARAMS_FILE))
        return load_config(self.path)

    def read(self, sharding_of: ShardingOf | None = None) -> Model:
        """The model, float32.

        Args:
            sharding_of: where its arrays go; None: the default device.

        Raises:
            JaxLMError: its files are damaged, or the model is not one we know.
        """
        model: Model
        if self.layout == "jax-lm":
            model = read_own(self.path, sharding_of)
        elif self.layout == "llama":
            model = _read_official(self.path)
            if sharding_of is not None:
                model = jax.device_put(model, sharding_of(model))
        else:
            model = load_model(self.path, sharding_of=sharding_of)
        return model


def open_model(spec: str, sharding_of: ShardingOf | None = None) -> OpenedModel:
    """Load a model with its tokenizer.

    Args:
        spec: a run directory (its best checkpoint where it keeps one, else its ``final/``, else
            its newest checkpoint), ``RUN@STEP``, a
            directory with a ``config.json`` of transformers, one that ``jax-lm convert`` wrote,
            LLaMA's own files, or a name on the Hugging Face hub; any of the directories may be on
            an object store, as in ``gs://bucket/run/final``.
        sharding_of: where its arrays go; None: the default device.

    Raises:
        JaxLMError: there is no such model, or its files are damaged.
    """
    found = find_model(spec)
    model = found.read(sharding_of)
    tokenizer = load_tokenizer(found.tokenizer)
    refuse_larger(tokenizer, model.config.vocab_size, str(found.path))
    return OpenedModel(model, tokenizer, found.path, found.tokenizer)


def open_decoder(spec: str) -> tuple[Decoder, Tokenizer]:
    """Load a model that continues text, with its tokenizer.

    Raises:
        JaxLMError: as ``open_model``, or the model is of another kind.
    """
    opened = open_model(spec)
    if not isinstance(opened.model, Decoder):
        config = opened.model.config
        raise JaxLMError(
            f"{spec}: {config.family} is of kind {config.kind}, and only a decoder continues text"
        )
    return opened.model, opened.tokenizer


def find_model(spec: str) -> FoundModel:
    """Where a model lies; one on the hub or an object store is fetched into a cache first.

    Raises:
        JaxLMError: there is no such model.
    """
    run, at, step = spec.rpartition("@")
    if at and step.isdigit():
        return _step(_here(run, int(step)), int(step))
    if is_object_store(spec):
        return _in_directory(_here(spec))
    path = Path(spec).expanduser()
    if path.is_dir():
        return _in_directory(path)
    if path.exists() or not is_hub_name(spec):
        raise JaxLMError(f"{spec}: no such directory: {EXPECTED}")
    directory = model_directory(spec)
    return FoundModel("huggingface", directory, directory)


def _here(place: str, step: int | None = None) -> Path:
    """A directory; of one on an object store, the copy in the user's cache directory."""
    return local_model(place, step, _warn) if is_object_store(place) else Path(place)


def _in_directory(path: Path) -> FoundModel:
    best, final = read_best(path / "checkpoints"), path / "final"
    if best is not None:
        _warn(f"{path}: the best checkpoint, step {best.step} ({best.metric} {best.value:.6g})")
        return _step(path, best.step)
    if final.is_dir():
        return FoundModel("huggingface", final, final, of_run=True)
    newest = newest_valid(path / "checkpoints", _warn)
    if newest is not None:
        return _step(path, read_progress(newest).step)
    if (path / ARRAYS).is_dir():
        return FoundModel("jax-lm", path, path / TOKENIZER)
    return FoundModel("llama" if is_official(path) else "huggingface", path, path)


def _step(run: Path, step: int) -> FoundModel:
    directory = step_directory(run / "checkpoints", step)
    if not directory.is_dir():
        known = ", ".join(map(str, list_steps(run / "checkpoints"))) or "none"
        raise JaxLMError(f"{run}@{step}: no such checkpoint (steps with one: {known})")
    return FoundModel("jax-lm", directory, run / TOKENIZER, of_run=True)


def _warn(line: str) -> None:
    print(f"jax-lm: {line}", file=sys.stderr)  # noqa: T201 (which weights are used is never a secret)


def _read_official(directory: Path) -> Any:
    files = OfficialLlama(directory)
    where = str(directory / PARAMS_FILE)
    family = family_of(files.config_values, where)
    return read_model(files, family, config_from_json(files.config_values, where))

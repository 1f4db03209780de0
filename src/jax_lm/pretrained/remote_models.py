"""Models on object stores: what is needed of one, brought here once and reused."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from jax_lm.checkpoints.layout import CONFIG, step_directory
from jax_lm.checkpoints.retention import BEST
from jax_lm.checkpoints.verifying import complete_steps, verify_checkpoint
from jax_lm.errors import JaxLMError
from jax_lm.preprocessing.partial import Say
from jax_lm.remote.caching import made_whole, place_of
from jax_lm.remote.directory import RemoteDirectory, StoredFile, differing

CHECKPOINTS, FINAL, TOKENIZER = "checkpoints", "final", "tokenizer"
FOREIGN = (".h5", ".msgpack", ".ot", ".onnx", ".gguf")
"""Weights of other programs beside those that are read."""
PICKLED = (".bin", ".pth", ".pt")

Files = Mapping[str, StoredFile]


def local_model(url: str, step: int | None, say: Say) -> Path:
    """The directory on this machine that stands for a URL, with what is needed of it.

    Args:
        url: a run directory, its ``final``, or any directory that is a MODEL.
        step: of the checkpoint that is wanted; None: of a run directory the best checkpoint where
            it keeps one, else its ``final``, else its newest checkpoint.
        say: receives what is done.

    Raises:
        JaxLMError: there is no such model, or it is damaged or out of reach.
    """
    directory = RemoteDirectory(url)
    if directory.name == FINAL and step is None and not directory.is_bucket:
        run = directory.parent
        files = run.files(FINAL) | run.files(CONFIG)
        if f"{FINAL}/{CONFIG}" in files:
            return _final(run, files, say) / FINAL
    return _run(directory, step, say)


def _final(run: RemoteDirectory, files: Files, say: Say) -> Path:
    """The final model, and the run's configuration, which says how it was trained."""
    return _brought(run, files, [CONFIG, *_under(files, FINAL)], say)


def _run(directory: RemoteDirectory, step: int | None, say: Say) -> Path:
    files = directory.files()
    steps = complete_steps(files)
    if step is not None:
        if step not in steps:
            known = ", ".join(map(str, steps)) or "none"
            raise JaxLMError(
                f"{directory.shown}@{step}: no such checkpoint (steps with one: {known})"
            )
        return _checkpoint(directory, files, step, say)
    best = _best(directory, files)
    if best in steps:
        return _checkpoint(directory, files, best, say)
    if f"{FINAL}/{CONFIG}" in files:
        return _final(directory, files, say)
    if not steps:
        return _plain(directory, files, say)
    for newest in reversed(steps):
        try:
            return _checkpoint(directory, files, newest, say)
        except JaxLMError as error:
            say(f"refused {error}")
    raise JaxLMError(f"{directory.shown}: none of the {len(steps)} checkpoints verifies")


def _plain(directory: RemoteDirectory, files: Files, say: Say) -> Path:
    """A directory of a model, whatever its layout."""
    safe = any(name.endswith(".safetensors") for name in files)
    left_out = (*FOREIGN, *PICKLED) if safe else FOREIGN
    wanted = [name for name in files if not name.endswith(left_out)]
    if not wanted:
        raise JaxLMError(f"{directory.shown}: no such directory, or there is nothing in it")
    return _brought(directory, files, wanted, say)


def _checkpoint(directory: RemoteDirectory, files: Files, step: int, say: Say) -> Path:
    place = step_directory(Path(CHECKPOINTS), step).as_posix()
    run = [name for name in (CONFIG, f"{CHECKPOINTS}/{BEST}") if name in files]
    wanted = [*run, *_under(files, TOKENIZER), *_under(files, place)]
    return _brought(directory, files, wanted, say, checkpoint=place)


def _best(directory: RemoteDirectory, files: Files) -> int | None:
    name = f"{CHECKPOINTS}/{BEST}"
    text = directory.read(name) if name in files else None
    try:
        return None if text is None else int(json.loads(text)["step"])
    except (ValueError, KeyError, TypeError) as error:
        raise JaxLMError(
            f"{directory.shown}/{name}: expected step, metric and value ({error}); remove it, or "
            "name a checkpoint as RUN@STEP"
        ) from error


def _under(files: Files, folder: str) -> list[str]:
    return [name for name in files if name.startswith(f"{folder}/")]


def _brought(
    directory: RemoteDirectory,
    files: Files,
    wanted: Sequence[str],
    say: Say,
    *,
    checkpoint: str | None = None,
) -> Path:
    """Files of a directory in the cache, under the directory's own name."""
    stored = {name: files[name] for name in wanted if name in files}
    here = place_of("models", directory.url, *map(repr, sorted(stored.items())))
    size = sum(file.num_bytes for file in stored.values()) / 1e6
    if here.is_dir():
        say(f"using the copy of {directory.shown} in {here}")
        return here / directory.name

    def bring(into: Path) -> None:
        say(f"copying {len(stored)} files of {directory.shown} ({size:,.1f} MB) to {here}")
        local = {name: into / directory.name / name for name in stored}
        directory.download(stored, into / directory.name)
        if wrong := differing(stored, local):
            raise JaxLMError(f"{directory.shown}/{wrong[0]}: came damaged: try again")
        if checkpoint is not None:
            try:
                verify_checkpoint(into / directory.name / checkpoint)
            except JaxLMError as error:
                said = str(error).removeprefix(str(into / directory.name))
                raise JaxLMError(f"{directory.shown}{said}") from error

    made_whole(here, bring)
    return here / directory.name

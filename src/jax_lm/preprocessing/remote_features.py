"""Features on an object store: brought into the user's cache directory, checked, and reused."""

from pathlib import Path

from jax_lm.errors import JaxLMError
from jax_lm.files.atomic import file_sha256
from jax_lm.preprocessing.manifest import (
    is_intact,
    manifest_path,
    read_manifest,
    tokenizer_directory,
)
from jax_lm.preprocessing.partial import Say
from jax_lm.remote.caching import made_whole, place_of
from jax_lm.remote.directory import RemoteDirectory, is_object_store
from jax_lm.tokenizers.pretrained import load_tokenizer

GLOB = "*["


def local_features(place: str, say: Say = print) -> str:
    """The PREFIX on this machine of a feature set; what is no set on a store is given back.

    A set is brought here once for each state of its manifest, and appears whole, also where
    several processes bring it at once.

    Args:
        place: a PREFIX, such as ``gs://bucket/features/train``, or anything else.
        say: receives what is done.

    Raises:
        JaxLMError: the set is damaged or incomplete, or the store cannot be reached.
    """
    if not is_object_store(place) or place.endswith("/") or any(mark in place for mark in GLOB):
        return place
    prefix = RemoteDirectory(place)
    if prefix.is_bucket:
        return place
    folder, name = prefix.parent, prefix.name
    text = folder.read(manifest_path(name).name)
    if text is None:
        return place
    if not is_intact(text.decode("utf-8", "replace")):
        raise JaxLMError(f"{prefix.shown}: its manifest is damaged: copy the set there again")
    here = place_of("remote-features", prefix.url, text.decode("utf-8", "replace"))
    local = str(here / name)
    if here.is_dir():
        say(f"using the copy of {prefix.shown} in {here}")
        return local
    made_whole(here, lambda directory: _bring(folder, name, directory, say))
    say(f"copied    {prefix.shown} to {here} ({_size(here) / 1e6:,.1f} MB)")
    return local


def _bring(folder: RemoteDirectory, name: str, directory: Path, say: Say) -> None:
    """Download a set, and refuse what is not as its manifest says."""
    say(f"copying   {folder.shown}/{name} to this machine")
    local = str(directory / name)
    manifest_name, tokenizer = manifest_path(name).name, tokenizer_directory(name).name
    folder.download([manifest_name], directory)
    manifest = read_manifest(local)
    stored = folder.files()
    beside = [found for found in stored if found.startswith(f"{tokenizer}/")]
    missing = [entry.name for entry in manifest.files if entry.name not in stored]
    if missing or not beside:
        raise _damaged(folder, name, f"{', '.join(missing or [tokenizer])} missing")
    folder.download([*(entry.name for entry in manifest.files), *beside], directory)
    for entry in manifest.files:
        if file_sha256(directory / entry.name) != entry.sha256:
            raise _damaged(folder, name, f"the sha256 of {entry.name} is not the manifest's")
    fingerprint = load_tokenizer(tokenizer_directory(local)).fingerprint()
    if fingerprint != manifest.tokenizer_fingerprint:
        raise _damaged(folder, name, f"{tokenizer} is not the tokenizer that cut it")


def _damaged(folder: RemoteDirectory, name: str, problem: str) -> JaxLMError:
    return JaxLMError(
        f"the features at {folder.shown}/{name} are damaged: {problem}: copy the set there again"
    )


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())

"""Features for whatever the user named: a feature PREFIX as it is, a SPEC by way of a cache."""

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

from jax_lm.documents.open import open_source
from jax_lm.errors import JaxLMError
from jax_lm.preprocessing.features import open_features
from jax_lm.preprocessing.locking import BeingMade
from jax_lm.preprocessing.manifest import Manifest, feature_files, manifest_path
from jax_lm.preprocessing.options import Objective, PreprocessOptions
from jax_lm.preprocessing.partial import Say, make_plan, wait_until_free
from jax_lm.preprocessing.pipeline import open_documents, preprocess
from jax_lm.tokenizers.pretrained import load_tokenizer

CACHE_VARIABLE = "JAX_LM_CACHE"


def cache_directory() -> Path:
    """Where preprocessed SPECs are kept: $JAX_LM_CACHE, else ~/.cache/jax-lm."""
    given = os.environ.get(CACHE_VARIABLE)
    return Path(given) if given else Path.home() / ".cache" / "jax-lm"


def features_for(
    spec: str,
    *,
    tokenizer: Path | None,
    sequence_length: int,
    max_documents: int | None = None,
    objective: Objective = "causal-lm",
    say: Say = print,
) -> str:
    """The PREFIX of features for ``spec``, preprocessing it into the cache if need be.

    Args:
        spec: a feature PREFIX, or where documents are.
        tokenizer: must equal the one a PREFIX was made with; needed to preprocess a SPEC.
        sequence_length: T, tokens a row the model wants.
        max_documents: read no more documents of a SPEC.
        objective: what the rows are to be trained by.
        say: receives what is done.

    Raises:
        JaxLMError: the features are of another length or tokenizer, incomplete or damaged; a
            SPEC comes without a tokenizer; or it cannot be preprocessed.
    """
    options = PreprocessOptions(
        max_sequence_length=sequence_length, max_documents=max_documents, objective=objective
    )
    if manifest_path(spec).exists() or feature_files(spec):
        _check_features(spec, tokenizer, options)
        return spec
    open_source(spec)  # a name that leads nowhere is told as such
    if tokenizer is None:
        raise JaxLMError(
            f"{spec} is text, not features (no manifest at {manifest_path(spec)}): "
            "pass --data.tokenizer DIR to preprocess it, or run jax-lm preprocess first"
        )
    prefix = str(cache_directory() / "features" / _key(spec, tokenizer, options) / "features")
    while not _cached(prefix, say):
        say(f"preprocessing {spec} into {prefix}")
        try:
            preprocess(spec, tokenizer, prefix, replace(options, overwrite=True), say=say)
            return prefix
        except BeingMade:
            say("another process is preprocessing the same: waiting for it")
            wait_until_free(prefix)
    say(f"using cached features of {spec}: {prefix}")
    return prefix


def _cached(prefix: str, say: Say) -> bool:
    if not manifest_path(prefix).exists():
        return False
    try:
        open_features(prefix)
    except JaxLMError as error:
        say(f"making cached features anew: {error}")
        return False
    return True


def _check_features(prefix: str, tokenizer: Path | None, wanted: PreprocessOptions) -> None:
    manifest = open_features(prefix)
    if manifest.sequence_length != wanted.row_length:
        raise JaxLMError(_other_length(prefix, manifest, wanted))
    if tokenizer is None:
        return
    fingerprint = load_tokenizer(tokenizer).fingerprint()
    if fingerprint != manifest.tokenizer_fingerprint:
        raise JaxLMError(
            f"{prefix} was cut by tokenizer {manifest.tokenizer_fingerprint[:12]}, but the run "
            f"uses {tokenizer}, which is {fingerprint[:12]}: preprocess it again with "
            f"--tokenizer {tokenizer}"
        )


def _other_length(prefix: str, manifest: Manifest, wanted: PreprocessOptions) -> str:
    length = wanted.max_sequence_length
    again = f"preprocess again with --max-sequence-length {length}"
    if wanted.objective == "span-corruption":
        return (
            f"{prefix} holds rows of {manifest.sequence_length}, but rows of {wanted.row_length} "
            f"give {length} inputs under span corruption: {again} --objective span-corruption"
        )
    problem = f"{prefix} holds rows of {manifest.sequence_length}, the model wants {length}: "
    if manifest.settings.get("objective") == "span-corruption":
        return f"{problem}{again} and without --objective span-corruption"
    return f"{problem}{again}, or train with --model.context-length {manifest.sequence_length}"


def _key(spec: str, tokenizer: Path, options: PreprocessOptions) -> str:
    source = open_documents(spec, tokenizer, options)
    plan = make_plan(
        source.fingerprint(), load_tokenizer(tokenizer).fingerprint(), options.settings()
    )
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()[:24]

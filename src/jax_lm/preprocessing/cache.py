"""Features for whatever the user named: a feature PREFIX as it is, a SPEC by way of a cache."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from jax_lm.documents.open import open_source
from jax_lm.errors import JaxLMError
from jax_lm.files.locking import BeingMade
from jax_lm.objectives.causal_lm import CausalLMConfig
from jax_lm.objectives.registry import ObjectiveConfig
from jax_lm.preprocessing.cutting.modes import Mode
from jax_lm.preprocessing.features import open_features
from jax_lm.preprocessing.manifest import feature_files, manifest_path
from jax_lm.preprocessing.options import PreprocessOptions
from jax_lm.preprocessing.partial import Say, make_plan, wait_until_free
from jax_lm.preprocessing.pipeline import open_documents, preprocess
from jax_lm.preprocessing.remote_features import local_features
from jax_lm.preprocessing.wanted import options_for, refuse_other_rows
from jax_lm.remote.caching import cache_directory
from jax_lm.tokenizers.pretrained import load_tokenizer

CAUSAL_LM = CausalLMConfig()


def features_for(
    spec: str,
    *,
    tokenizer: Path | None,
    sequence_length: int,
    max_documents: int | None = None,
    objective: ObjectiveConfig = CAUSAL_LM,
    target_length: int | None = None,
    mode: Mode | None = None,
    say: Say = print,
) -> str:
    """The PREFIX of features for ``spec``, preprocessing it into the cache if need be.

    Args:
        spec: a feature PREFIX, also on an object store (it is brought here), or where documents
            are.
        tokenizer: must equal the one a PREFIX was made with; needed to preprocess a SPEC.
        sequence_length: T, input tokens a row the model wants.
        max_documents: read no more documents of a SPEC.
        objective: what the rows are to be trained by.
        target_length: tokens of an output, where rows are pairs; None: T.
        mode: how a SPEC is cut; None: pairs where the objective needs them, else packed.
        say: receives what is done.

    Raises:
        JaxLMError: the features are of another objective, length or tokenizer, incomplete or
            damaged; a SPEC comes without a tokenizer; or it cannot be preprocessed.
    """
    options = options_for(
        objective,
        sequence_length=sequence_length,
        target_length=target_length,
        mode=mode,
        max_documents=max_documents,
    )
    spec = local_features(spec, say)
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
    refuse_other_rows(prefix, manifest, wanted)
    if tokenizer is None:
        return
    fingerprint = load_tokenizer(tokenizer).fingerprint()
    if fingerprint != manifest.tokenizer_fingerprint:
        raise JaxLMError(
            f"{prefix} was cut by tokenizer {manifest.tokenizer_fingerprint[:12]}, but the run "
            f"uses {tokenizer}, which is {fingerprint[:12]}: preprocess it again with "
            f"--tokenizer {tokenizer}"
        )


def _key(spec: str, tokenizer: Path, options: PreprocessOptions) -> str:
    source = open_documents(spec, tokenizer, options)
    plan = make_plan(
        source.fingerprint(), load_tokenizer(tokenizer).fingerprint(), options.settings()
    )
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()[:24]

"""Documents -> a feature set on disk: from a SPEC to a manifest, through Apache Beam."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from jax_lm.documents.base import DocumentSource
from jax_lm.documents.conversations.templates import has_template
from jax_lm.documents.limited import passed_over
from jax_lm.documents.open import open_source
from jax_lm.errors import JaxLMError
from jax_lm.preprocessing.features import open_features
from jax_lm.preprocessing.making import Making
from jax_lm.preprocessing.manifest import Manifest, checked_prefix, manifest_path, read_manifest
from jax_lm.preprocessing.options import PreprocessOptions
from jax_lm.preprocessing.partial import (
    PartialSet,
    Plan,
    Say,
    differences,
    make_plan,
    plan_of,
)
from jax_lm.tokenizers.pretrained import load_tokenizer


def preprocess(
    source_spec: str | Sequence[str],
    tokenizer_dir: Path,
    output_prefix: str,
    options: PreprocessOptions,
    *,
    say: Say = print,
) -> Manifest:
    """Make the feature set ``output_prefix``, or finish one that was interrupted.

    Args:
        source_spec: where the documents are, as on the command line.
        tokenizer_dir: a directory that ``load_tokenizer`` reads.
        output_prefix: files are named ``PREFIX-00000-of-00008.parquet``.
        options: how documents become rows.
        say: receives a line whenever there is something to tell.

    Raises:
        JaxLMError: the documents, the tokenizer or the prefix cannot be used; the set would be
            smaller than one row; another set is already there.
    """
    prefix = checked_prefix(output_prefix)
    source = open_documents(source_spec, tokenizer_dir, options)
    tokenizer = load_tokenizer(tokenizer_dir)
    plan = make_plan(source.fingerprint(), tokenizer.fingerprint(), options.settings())
    done = None if options.overwrite else _finished(prefix, plan, options)
    if done is not None:
        say(f"already done: {prefix} was made from the same source, tokenizer and settings")
        return done
    if others := passed_over(source):
        say(f"not read (of another kind, or made here): {len(others):,} files such as {others[0]}")
    partial = PartialSet(prefix, plan)
    return Making(source, tokenizer_dir, tokenizer, options, partial, say).run()


def open_documents(
    spec: str | Sequence[str], tokenizer: Path, options: PreprocessOptions
) -> DocumentSource:
    """The documents of a SPEC; conversations take the tokenizer's template, unless one is named.

    Raises:
        JaxLMError: they cannot be read, or the template is broken.
    """
    if options.chat_template is None and has_template(tokenizer):
        options = replace(options, chat_template=str(tokenizer))
    return open_source(spec, options)


def _finished(prefix: str, plan: Plan, options: PreprocessOptions) -> Manifest | None:
    """The complete set under a prefix, if there is one and it was made by this plan."""
    if not manifest_path(prefix).exists():
        return None
    manifest = read_manifest(prefix)
    differ = differences(plan_of(manifest), plan)
    if options.on_bad_record == "stop" and manifest.totals.rejected:
        differ.append(f"{manifest.totals.rejected} bad records were skipped")
    if differ:
        raise JaxLMError(
            f"{prefix} already holds features made otherwise ({'; '.join(differ)}): "
            "give --overwrite to replace them, or choose another --output"
        )
    PartialSet(prefix, plan).discard()
    return open_features(prefix)

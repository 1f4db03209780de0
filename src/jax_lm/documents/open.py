"""SPEC -> a source of documents."""

import os
from collections.abc import Sequence
from itertools import groupby

from jax_lm.documents.base import DocumentSource
from jax_lm.documents.chained import ChainedSource
from jax_lm.documents.files.opening import open_files
from jax_lm.documents.limited import LimitedSource
from jax_lm.documents.reading import ReadingOptions
from jax_lm.documents.record_fields import RecordFields
from jax_lm.documents.specs import Spec, parse_spec
from jax_lm.errors import UsageError

EVERYTHING = ReadingOptions()
FILES = "files"


def open_source(
    spec: str | os.PathLike[str] | Sequence[str] | DocumentSource,
    options: ReadingOptions = EVERYTHING,
) -> DocumentSource:
    """Open the documents that one or several SPECs name, one after another or mixed.

    Args:
        spec: ``stdlib``; a path, a glob, a directory or a URL, each with ``?text=FIELD`` and the
            like after it; ``hf-dataset:NAME``, ``sqlite:PATH`` or ``mongodb://...``; or an open
            source, which then keeps its own settings of reading.
        options: how records are read, and which documents are kept.

    Raises:
        JaxLMError: nothing is there, or nothing that can be read.
        UsageError: an option is unknown or has nothing to act on.
    """
    if isinstance(spec, str | os.PathLike):
        spec = [os.fspath(spec)]
    source = _open_all(spec, options) if isinstance(spec, Sequence) else spec
    source = _selected(source, options)
    limit = options.max_documents
    return source if limit is None else LimitedSource(source, limit)


def _open_all(written: Sequence[str], options: ReadingOptions) -> DocumentSource:
    if not written:
        raise UsageError("no SPEC given; write stdlib, a path, a glob, a directory or a URL")
    specs = [parse_spec(one) for one in written]
    if options.weights:
        return _mixed(specs, options)
    sources: list[DocumentSource] = []
    for is_files, group in groupby(specs, key=_is_files):
        if is_files:
            sources.append(open_files(list(group), options))
        else:
            sources.extend(_open_other(one, options) for one in group)
    return sources[0] if len(sources) == 1 else ChainedSource(sources)


def _mixed(specs: list[Spec], options: ReadingOptions) -> DocumentSource:
    from jax_lm.documents.selection.mixture import mix

    if len(options.weights) != len(specs):
        raise UsageError(
            f"--weights has {len(options.weights)} numbers for {len(specs)} SPECs; give one each"
        )
    sources = [
        open_files([spec], options) if _is_files(spec) else _open_other(spec, options)
        for spec in specs
    ]
    return mix(sources, options.weights, options.mixture_seed, options.mixture_stops)


def _is_files(spec: Spec) -> bool:
    return spec.kind in ("stdlib", FILES)


def _open_other(spec: Spec, options: ReadingOptions) -> DocumentSource:
    if spec.kind == "sqlite":
        from jax_lm.documents.stores.sqlite import open_sqlite

        return open_sqlite(spec.place, spec.options)
    if spec.kind == "mongodb":
        from jax_lm.documents.stores.mongodb import open_mongodb

        return open_mongodb(spec.written, RecordFields.of({}, options).template)
    from jax_lm.documents.huggingface.opening import open_hf_dataset

    return open_hf_dataset(spec, options)


def _selected(source: DocumentSource, options: ReadingOptions) -> DocumentSource:
    from jax_lm.documents.selection.selected import selected

    return selected(source, options)

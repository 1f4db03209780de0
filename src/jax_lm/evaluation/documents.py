"""Documents scored by a decoder or a masked model, each token once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from jax.sharding import Mesh

from jax_lm.documents.base import Cursor, DocumentSource
from jax_lm.documents.open import open_source
from jax_lm.documents.reading import ReadingOptions
from jax_lm.errors import JaxLMError
from jax_lm.evaluation.document_indices import open_chosen
from jax_lm.evaluation.options import EvaluateOptions
from jax_lm.evaluation.results.compression import CompressionYardstick
from jax_lm.evaluation.results.result import Evaluation, Resampling, counted
from jax_lm.evaluation.scoring.methods import method_config
from jax_lm.evaluation.scoring.perplexity import evaluate_documents
from jax_lm.evaluation.scoring.pieces import Scoring
from jax_lm.evaluation.scoring.pseudo import evaluate_masked
from jax_lm.evaluation.scoring.scores import total
from jax_lm.models.decoder import Decoder
from jax_lm.models.encoder import Encoder
from jax_lm.pretrained import OpenedModel
from jax_lm.tokenizers.base import start_id
from jax_lm.trackers.console import Progress
from jax_lm.types import Document

MOST_NAMED = 30
"""Subsets in an error."""


def score_documents(
    opened: OpenedModel, specs: Sequence[str], options: EvaluateOptions, mesh: Mesh
) -> Evaluation:
    """Score documents with a decoder, or with a masked model by its pseudo-log-likelihood.

    Args:
        opened: MODEL, on the mesh.
        specs: SPECs, read one after another.
        options: method and limits.
        mesh: whose devices share the work.

    Raises:
        JaxLMError: the text cannot be read, or there is nothing to score.
    """
    model = opened.model
    assert isinstance(model, Decoder | Encoder)
    config = method_config(
        options.method or "rolling",
        window=options.window,
        context=options.context_length,
        model_context=model.config.context_length,
    )
    source = open_chosen(specs, options)
    yardstick = CompressionYardstick()
    seen = _Seen(source, yardstick.add if options.compressors else lambda text: None)
    with Progress(None, "tokens", label="scored") as progress:
        scoring = Scoring(
            batch_size=options.batch_size,
            dtype=options.dtype,
            mesh=mesh,
            advance=progress.update,
        )
        if isinstance(model, Decoder):
            tally = evaluate_documents(model, opened.tokenizer, seen, config, scoring)
        else:
            tally = evaluate_masked(model, opened.tokenizer, seen, config, scoring)
        missing = sorted((options.kept_subsets or frozenset()) - set(tally.scores()))
        if missing and seen.count:
            progress.message(f"no documents of subset {', '.join(map(repr, missing))}")
    if not total(tally.scores()).num_tokens:
        found = counted(seen.count, "documents")
        hint = "" if seen.count else _there_are(specs, options)
        raise JaxLMError(f"{source.name}: no tokens to score in {found}{hint}")
    return Evaluation(
        model=str(opened.path),
        source=source.name,
        method=config.describe(start_id(opened.tokenizer)),
        unit="documents",
        tally=tally,
        resampling=Resampling(options.resamples, options.resampling_seed),
        compressors=yardstick.bits_per_byte(),
    )


def _there_are(specs: Sequence[str], options: EvaluateOptions) -> str:
    """The subsets that could have been asked for, where some were."""
    if options.subsets is None and options.exclude_subsets is None:
        return ""
    everything = replace(ReadingOptions(), chat_template=options.chat_template)
    documents = open_source(list(specs), everything).read(Cursor(0, 0))
    names = sorted({document.subset for _, document in documents} - {""})
    if not names:
        return ": the text has no subsets, so leave --subsets and --exclude-subsets out"
    shown = ", ".join(map(repr, names[:MOST_NAMED])) + ", ..." * (len(names) > MOST_NAMED)
    return f": the text's subsets are {shown}, and --subsets or --exclude-subsets leaves all out"


class _Seen:
    """The documents of a source, counted and shown to ``look`` as they pass."""

    def __init__(self, source: DocumentSource, look: Callable[[str], None]) -> None:
        self._source, self._look = source, look
        self.count = 0

    def __iter__(self) -> Iterator[Document]:
        for _, document in self._source.read(Cursor(0, 0)):
            self.count += 1
            self._look(document.text)
            yield document

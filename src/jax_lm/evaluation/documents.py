"""Documents scored by a decoder or a masked model, each token once."""

from collections.abc import Callable, Iterator, Sequence

from jax.sharding import Mesh

from jax_lm.documents.base import Cursor, DocumentSource
from jax_lm.errors import JaxLMError
from jax_lm.evaluation.document_indices import open_chosen
from jax_lm.evaluation.options import EvaluateOptions
from jax_lm.evaluation.results.compression import CompressionYardstick
from jax_lm.evaluation.results.result import Evaluation, Resampling
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
    if not total(tally.scores()).num_tokens:
        raise JaxLMError(f"{source.name}: no tokens to score in {seen.count} documents")
    return Evaluation(
        model=str(opened.path),
        source=source.name,
        method=config.describe(start_id(opened.tokenizer)),
        unit="documents",
        tally=tally,
        resampling=Resampling(options.resamples, options.resampling_seed),
        compressors=yardstick.bits_per_byte(),
    )


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

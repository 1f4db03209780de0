"""``hf-dataset:`` SPECs -> sources."""

from jax_lm.documents.base import DocumentSource
from jax_lm.documents.huggingface.loading import HfDataset
from jax_lm.documents.huggingface.rows import StoredRows
from jax_lm.documents.huggingface.streaming import StreamedRows
from jax_lm.documents.reading import ReadingOptions
from jax_lm.documents.record_fields import RecordFields
from jax_lm.documents.specs import Spec
from jax_lm.errors import UsageError

TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def open_hf_dataset(spec: Spec, options: ReadingOptions) -> DocumentSource:
    """The rows of a data set of the ``datasets`` library.

    Args:
        spec: ``NAME[:CONFIG]``, with the options ``split``, ``streaming``, ``text``, ``subset``.
        options: how records are read.

    Raises:
        JaxLMError: there is no such data set, configuration, split or column.
        UsageError: an option cannot be used.
    """
    if not spec.place:
        raise UsageError("hf-dataset: needs a name, as in hf-dataset:wikitext:wikitext-2-v1")
    written = spec.options.get("streaming", "false")
    if written.lower() not in TRUTH:
        raise UsageError(f"{spec.shown}: streaming is {written!r}, expected true or false")
    name, _, config = spec.place.partition(":")
    dataset = HfDataset(
        spec.shown, name, config or None, spec.options.get("split"), TRUTH[written.lower()]
    )
    fields = RecordFields.of(spec.options, options)
    kind = StreamedRows if dataset.streams() else StoredRows
    return kind(dataset, fields, options.on_bad_record).checked()

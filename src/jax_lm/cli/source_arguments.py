"""The flags of every verb that reads documents."""

from dataclasses import dataclass

import tyro

from jax_lm.documents.base import DocumentSource
from jax_lm.documents.open import open_source
from jax_lm.documents.reading import ReadingOptions


@dataclass(frozen=True, kw_only=True)
class SourceArguments(ReadingOptions):
    """Which documents to read."""

    spec: tyro.conf.Positional[tuple[str, ...]]
    """Where the documents are: stdlib; files, globs and directories; gs://, s3://, hf:// and
    other addresses; hf-dataset:NAME; sqlite:PATH; mongodb://HOST/DB. ?text=FIELD and ?subset=FIELD
    after one name the fields of its records."""

    def open(self) -> DocumentSource:
        """The source they name.

        Raises:
            JaxLMError: it is not there or cannot be read.
        """
        return open_source(self.spec, self)

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
    """stdlib, or paths, globs and directories of .txt and .jsonl files."""

    def open(self) -> DocumentSource:
        """The source they name.

        Raises:
            JaxLMError: it is not there or cannot be read.
        """
        return open_source(self.spec, self)

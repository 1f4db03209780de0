"""The flags of every verb that reads documents."""

from dataclasses import dataclass

import tyro

from jax_lm.documents.base import DocumentSource
from jax_lm.documents.open import open_source


@dataclass(frozen=True, kw_only=True)
class SourceArguments:
    """Which documents to read."""

    spec: tyro.conf.Positional[tuple[str, ...]]
    """stdlib, or paths, globs and directories of .txt and .jsonl files."""
    lines: bool = False
    """A .txt file holds one document a line."""
    max_documents: int | None = None
    """Read no more than the first so many documents."""

    def open(self) -> DocumentSource:
        """The source they name.

        Raises:
            JaxLMError: it is not there or cannot be read.
        """
        return open_source(self.spec, max_documents=self.max_documents, lines=self.lines)

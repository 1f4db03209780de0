"""What a source of another source's documents has from it unchanged."""

from collections import Counter

from jax_lm.documents.base import DocumentSource, RejectedRecord


class WrappedSource:
    """The name and the counts of the source within; whoever wraps it says the rest."""

    source: DocumentSource

    @property
    def name(self) -> str:
        """The name of the whole source."""
        return self.source.name

    @property
    def rejects(self) -> list[RejectedRecord]:
        """What the whole source skipped."""
        return self.source.rejects

    @property
    def dropped(self) -> Counter[str]:
        """What was left out, here and in the source, by reason."""
        return self.source.dropped

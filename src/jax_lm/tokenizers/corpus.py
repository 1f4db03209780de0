"""The texts a tokenizer learns from, watched on their way."""

from collections.abc import Iterable, Iterator

from jax_lm.errors import JaxLMError

SAMPLE_CHARACTERS = 1_000_000


class CountedTexts:
    """Texts to iterate over once; counts their characters and keeps the first as a sample."""

    def __init__(self, texts: Iterable[str], sample_characters: int = 0):
        self._texts = texts
        self._sample_characters = sample_characters
        self.characters = 0
        self.sample: list[str] = []

    def __iter__(self) -> Iterator[str]:
        """The texts as they are."""
        for text in self._texts:
            room = self._sample_characters - self.characters
            if room > 0:
                self.sample.append(text[:room])
            self.characters += len(text)
            yield text

    def refuse_if_empty(self) -> None:
        """Raise a JaxLMError if there was no text."""
        if not self.characters:
            raise JaxLMError("the corpus has no text to learn from; name documents that have some")

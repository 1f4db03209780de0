"""Text as it is drawn: whole characters only, and nothing of what may begin a stop string."""

from collections.abc import Sequence

from jax_lm.tokenizers.base import Tokenizer

UNKNOWN = "\N{REPLACEMENT CHARACTER}"
"""What bytes that are no character, or not one yet, decode to."""
PROMPT_PART = 8
LONGEST_WAIT = 32
"""Tokens after which what still is no character never will be one."""
LONGEST_BEGINNING = 3
"""Bytes, and so tokens at most, that a character may lack its last byte with."""


class TextStream:
    """The text of a continuation, piece by piece, up to a stop string.

    Tokens are decoded after those before them, since SentencePiece leaves out the first space of a
    text; and after a few only, so that a token costs the same however long the text is.
    """

    def __init__(
        self, tokenizer: Tokenizer, prompt_ids: Sequence[int], stop: Sequence[str] = ()
    ) -> None:
        """Begin after a prompt.

        Args:
            tokenizer: spells the tokens.
            prompt_ids: what the text goes on from; empty where it stands alone.
            stop: strings that end the text and are not part of it.
        """
        self._tokenizer, self._stop = tokenizer, tuple(stop)
        self._before = _end_of(tokenizer, prompt_ids)
        self._waiting: list[int] = []
        self._held = ""
        self.stopped = False
        """Whether a stop string was found."""
        self.text = ""
        """All that was given out."""

    def push(self, token_id: int) -> str:
        """New text that is sure after one more token; none once a stop string was found."""
        if self.stopped:
            return ""
        self._waiting.append(token_id)
        return self._give(self._whole_characters(), last=False)

    def finish(self) -> str:
        """What was held back; no token follows."""
        if self.stopped:
            return ""
        rest, self._waiting = self._decoded(self._waiting), []
        return self._give(rest, last=True)

    def _whole_characters(self) -> str:
        """Decode what waits, if it ends with a character."""
        text, ready = self._decoded(self._waiting), len(self._waiting)
        if text.endswith(UNKNOWN):
            if ready < LONGEST_WAIT:
                return ""
            ready -= LONGEST_BEGINNING
            text = self._decoded(self._waiting[:ready])
        if text:
            self._before, self._waiting = self._waiting[:ready], self._waiting[ready:]
        elif ready >= LONGEST_WAIT:
            # Tokens that spell nothing, as special ones do: no more of them is decoded each time.
            self._waiting = self._waiting[-LONGEST_BEGINNING:]
        return text

    def _decoded(self, ids: list[int]) -> str:
        before = self._tokenizer.decode(self._before)
        together = self._tokenizer.decode([*self._before, *ids])
        if together.startswith(before):
            return together[len(before) :]
        # A beginning of a character makes SentencePiece give up the bytes before it as well.
        return self._tokenizer.decode(ids)

    def _give(self, text: str, *, last: bool) -> str:
        self._held += text
        found = [place for stop in self._stop if (place := self._held.find(stop)) >= 0]
        if found:
            self.stopped = True
            sure = min(found)
        else:
            sure = len(self._held) - (0 if last else self._may_begin_stop())
        given, self._held = self._held[:sure], self._held[sure:]
        self.text += given
        return given

    def _may_begin_stop(self) -> int:
        """Characters at the end of what is held that a stop string may begin with."""
        return max(
            (
                length
                for stop in self._stop
                for length in range(1, len(stop))
                if self._held.endswith(stop[:length])
            ),
            default=0,
        )


def _end_of(tokenizer: Tokenizer, ids: Sequence[int]) -> list[int]:
    """The end of a prompt, from the beginning of a character on; it spells something if it can."""
    spelling: list[list[int]] = []
    for part in range(PROMPT_PART, PROMPT_PART + LONGEST_WAIT):
        end = list(ids[-part:])
        text = tokenizer.decode(end)
        if UNKNOWN not in text and (text or part >= len(ids)):
            return end
        if text:
            spelling.append(end)
    return spelling[0] if spelling else list(ids)

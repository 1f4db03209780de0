"""Reading on where the range before ended, in sources that can only be read from the start."""

from collections.abc import Iterator
from typing import Generic, TypeVar

from jax_lm.documents.base import Cursor

R = TypeVar("R")


class LeftOff(Generic[R]):
    """What is left of a source after a range was read, for whoever reads the range that follows.

    Copies and pickles of it are empty: an open file is its reader's own.
    """

    def __init__(self) -> None:
        """Nothing is left yet."""
        self._left: tuple[Cursor, Iterator[R]] | None = None

    def __reduce__(self) -> tuple[type["LeftOff[R]"], tuple[()]]:
        """Give others an empty one."""
        return type(self), ()

    def keep(self, cursor: Cursor, records: Iterator[R]) -> None:
        """Records from a cursor on, instead of any kept before."""
        self._left = (cursor, records)

    def take(self, cursor: Cursor) -> Iterator[R] | None:
        """The records from a cursor on, if they were kept; nothing is kept any more."""
        left, self._left = self._left, None
        return left[1] if left is not None and left[0] == cursor else None

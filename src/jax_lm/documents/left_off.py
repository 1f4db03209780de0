"""Reading on where the range before ended, in sources that can only be read from the start."""

from typing import Generic, TypeVar

from jax_lm.documents.base import Cursor

T = TypeVar("T")


class LeftOff(Generic[T]):
    """What was open when the reading of a range ended, for whoever reads the range that follows.

    Copies and pickles of it are empty: an open file is its reader's own.
    """

    def __init__(self) -> None:
        """Nothing is open yet."""
        self._left: tuple[Cursor, T] | None = None

    def __reduce__(self) -> tuple[type["LeftOff[T]"], tuple[()]]:
        """Give others an empty one."""
        return type(self), ()

    def keep(self, cursor: Cursor, rest: T) -> None:
        """What goes on from a cursor, instead of anything kept before."""
        self._left = (cursor, rest)

    def take(self, cursor: Cursor) -> T | None:
        """What goes on from a cursor, if it was kept; nothing is kept any more."""
        left, self._left = self._left, None
        return left[1] if left is not None and left[0] == cursor else None

"""How a long document is cut into windows so that every token is scored exactly once."""

from collections.abc import Iterator
from typing import NamedTuple


class Window(NamedTuple):
    """Positions [start, stop) of a sequence are inputs; the targets are those one later.

    The last ``scored`` targets count, the earlier ones are context.
    """

    start: int
    stop: int
    scored: int


def windows(num_targets: int, window: int, context: int) -> Iterator[Window]:
    """Cut a sequence of ``num_targets + 1`` ids (the first is never a target).

    The first window scores up to ``window`` targets; each later one scores up to
    ``window - context + 1`` new targets and takes as input the ``window`` ids before its last
    target (Gao et al. 2020, arXiv:2101.00027, appendix C). With ``context`` 1 the windows are
    disjoint, except the last, which is shifted back to the end of the document.

    Args:
        num_targets: targets of the document.
        window: inputs of a window at most.
        context: inputs that a later window's first new target sees at least; 1 to ``window``.
    """
    done = min(window, num_targets)
    if done:
        yield Window(0, done, done)
    while done < num_targets:
        scored = min(window - context + 1, num_targets - done)
        done += scored
        yield Window(max(0, done - window), done, scored)

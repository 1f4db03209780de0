import pytest
from hypothesis import given
from hypothesis import strategies as st

from jax_lm.evaluation.scoring.windows import Window, windows


@given(st.integers(0, 200), st.integers(1, 40), st.data())
def test_every_target_is_scored_once_with_its_context(
    num_targets: int, window: int, data: st.DataObject
) -> None:
    context = data.draw(st.integers(1, window))
    scored: list[int] = []
    for cut in windows(num_targets, window, context):
        assert 1 <= cut.stop - cut.start <= window
        first = cut.stop - cut.scored
        # A new target sees at least `context` inputs, where the document has them.
        assert first + 1 - cut.start >= min(context, first + 1)
        scored.extend(range(first, cut.stop))
    assert scored == list(range(num_targets))


def test_the_papers_windows() -> None:
    """GPT-2's setting of the Pile paper, in miniature: window 4, context 2."""
    assert list(windows(9, 4, 2)) == [
        Window(0, 4, 4),
        Window(3, 7, 3),
        Window(5, 9, 2),
    ]


def test_disjoint_windows_shift_the_last_one_back() -> None:
    assert list(windows(10, 4, 1)) == [Window(0, 4, 4), Window(4, 8, 4), Window(6, 10, 2)]


@pytest.mark.parametrize("num_targets", [0, 1, 4])
def test_short_documents_are_one_window(num_targets: int) -> None:
    expected = [Window(0, num_targets, num_targets)] if num_targets else []
    assert list(windows(num_targets, 4, 2)) == expected

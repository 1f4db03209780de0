"""``jax-lm`` that touches a file when it comes to a moment: MOMENT MARK train ..."""

import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jax_lm.checkpoints import saving
from jax_lm.cli.main import main
from jax_lm.evaluation.scoring.rows import RowScorer
from jax_lm.training import run

MOMENT, MARK = sys.argv[1], Path(sys.argv[2])


def marked(function: Callable[..., Any], seconds: float = 0.0) -> Callable[..., Any]:
    """``function``, which first touches the file, and then takes so many seconds longer."""

    def call(*args: Any, **settings: Any) -> Any:
        MARK.touch()
        time.sleep(seconds)
        return function(*args, **settings)

    return call


if MOMENT == "compilation":
    make = run.make_train_step
    run.make_train_step = lambda *args, **settings: marked(make(*args, **settings))
elif MOMENT == "evaluation":
    score, evaluations = RowScorer.score, itertools.count()

    def score_and_mark(*args: Any, **settings: Any) -> Any:
        """Mark the second evaluation, in the middle of the run."""
        second = next(evaluations) == 1
        return (marked(score, 0.5) if second else score)(*args, **settings)

    RowScorer.score = score_and_mark  # type: ignore[method-assign]
elif MOMENT == "save":
    saving.write_checksums = marked(saving.write_checksums, 0.5)
sys.exit(main(sys.argv[3:]))

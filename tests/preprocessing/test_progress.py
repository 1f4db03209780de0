"""What is shown while shards are written."""

import time

from jax_lm.preprocessing import progress
from jax_lm.preprocessing.partial import write_failure, write_result
from jax_lm.preprocessing.shards import ShardResult


def result(index):
    counts = dict.fromkeys(
        (
            "rows",
            "tokens",
            "targets",
            "padding",
            "num_bytes",
            "spelled_bytes",
            "documents",
            "cut_off",
            "row_length",
        ),
        0,
    )
    return ShardResult(
        index=index,
        kind="shift",
        columns=(),
        place=(0, 0, 1, 0),
        subsets={},
        dropped={},
        text_bytes=2_000_000,
        **counts,
    )


def test_plain_lines_count_finished_shards(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 0.02)
    said = []
    with progress.shown_progress(tmp_path, 4, said.append):
        write_result(tmp_path, result(0))
        write_result(tmp_path, result(1))
        write_failure(tmp_path, 2, "no")
        time.sleep(0.2)
    assert said[-1].startswith("2 of 4 shards, 4.0 MB of text, ")
    assert "MB/s, about" in said[-1] and said[-1].endswith("s left")


def test_a_bar_on_a_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress, "TERMINAL_SECONDS", 0.02)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress.shown_progress(tmp_path, 2, print):
        write_result(tmp_path, result(0))
        time.sleep(0.3)
    printed, shown = capsys.readouterr()
    assert "1/2" in shown and "2.0 MB of text" in shown and printed == ""


def test_short_work_is_quiet(tmp_path):
    said = []
    with progress.shown_progress(tmp_path, 1, said.append):
        pass
    assert said == []

from pathlib import Path

from jax_lm.trackers.samples import Sample, SamplesTracker, read_samples


def test_samples_are_read_back(tmp_path: Path) -> None:
    tracker = SamplesTracker(tmp_path)
    tracker.sample(1000, "def ", "def main():\n    pass\n")
    tracker.sample(1000, 'say "hé"\n', "goodbye")
    tracker.sample(2000, "", "nothing asked")
    tracker.close()
    assert (tmp_path / "step-00001000.txt").read_text(encoding="utf-8").startswith("--- prompt: ")
    assert read_samples(tmp_path) == [
        Sample(1000, "def ", "def main():\n    pass\n"),
        Sample(1000, 'say "hé"\n', 'say "hé"\ngoodbye'),
        Sample(2000, "", "nothing asked"),
    ]


def test_a_step_taken_again_replaces_its_samples(tmp_path: Path) -> None:
    for text in ("first", "second"):
        SamplesTracker(tmp_path, resume_step=5).sample(10, "", text)
    assert [sample.text for sample in read_samples(tmp_path)] == ["second"]


def test_resume_removes_samples_past_the_checkpoint(tmp_path: Path) -> None:
    tracker = SamplesTracker(tmp_path)
    for step in (10, 20, 30):
        tracker.sample(step, "", "text")
    SamplesTracker(tmp_path, resume_step=20)
    assert [sample.step for sample in read_samples(tmp_path)] == [10, 20]


def test_text_that_looks_like_a_header_is_still_shown(tmp_path: Path) -> None:
    SamplesTracker(tmp_path).sample(1, "a", 'a\n--- prompt: "\\q"\nrest')
    samples = read_samples(tmp_path)
    assert [sample.prompt for sample in samples] == ["a", ""]
    assert samples[1].text == "rest"


def test_no_folder_no_samples(tmp_path: Path) -> None:
    assert read_samples(tmp_path / "samples") == []

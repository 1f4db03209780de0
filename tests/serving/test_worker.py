import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from jax_lm.errors import JaxLMError
from jax_lm.generation.requests import Drawn, Request
from jax_lm.generation.sampling import SamplingConfig
from jax_lm.serving.decoding.jobs import Job, NotServing, QueueFull
from jax_lm.serving.decoding.worker import Worker

Make = Callable[..., Any]


class Kept:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.error: Exception | None = None
        self.done = threading.Event()

    def take(self, drawn: Drawn) -> None:
        self.ids.append(drawn.id)
        if drawn.finish:
            self.done.set()

    def fail(self, error: Exception) -> None:
        self.error = self.error or error
        self.done.set()


def job(tokens: int = 5, prompt: tuple[int, ...] = (1,)) -> Job:
    return Job(Request(prompt, SamplingConfig(max_new_tokens=tokens)), Kept())


def wait(*jobs: Job) -> list[Kept]:
    readers = [one.reader for one in jobs]
    for reader in readers:
        assert isinstance(reader, Kept)
        assert reader.done.wait(5)
    return readers  # type: ignore[return-value]


@contextmanager
def started(decoder: Any, max_queue: int = 8) -> Iterator[tuple[Worker, list[int]]]:
    worker, posts = Worker(decoder, max_queue=max_queue), [0]

    def post(run: Callable[[], None]) -> None:
        posts[0] += 1
        run()

    worker.start(post)
    yield worker, posts
    worker.stop()
    worker.join(5)


def test_requests_join_and_leave_at_any_step(scripted: Make) -> None:
    decoder = scripted(num_slots=2, pace=0.002)
    jobs = [job(tokens) for tokens in (3, 20, 7, 1, 12)]
    with started(decoder) as (worker, posts):
        worker.submit(jobs)
        kept = wait(*jobs)
    assert [len(one.ids) for one in kept] == [3, 20, 7, 1, 12]
    assert all(one.ids == list(decoder.ids[: len(one.ids)]) for one in kept)
    # One after the other would take 43 steps; one wake-up each, and one for the end.
    assert decoder.steps < 30
    assert posts[0] == decoder.steps + 1


def test_a_full_queue_takes_all_or_none(scripted: Make) -> None:
    with started(scripted(num_slots=1, pace=0.05), max_queue=2) as (worker, _):
        worker.submit([job(), job()])
        with pytest.raises(QueueFull):
            worker.submit([job(), job()])
        worker.submit([job()])
        assert worker.num_waiting + worker.num_running == 3


def test_abandoned_jobs_give_their_slots_back(scripted: Make) -> None:
    decoder = scripted(num_slots=1, pace=0.005)
    running, waiting, last = job(10_000), job(10_000), job(2)
    with started(decoder) as (worker, _):
        worker.submit([running, waiting, last])
        while not running.reader.ids:  # type: ignore[attr-defined]
            time.sleep(0.001)
        worker.abandon([running, waiting])
        (kept,) = wait(last)
        worker.abandon([last])  # it has ended: nothing happens
    assert len(kept.ids) == 2
    assert decoder.released == 1
    assert len(decoder.admitted) == 2


def test_a_bad_request_does_not_harm_its_neighbours(scripted: Make) -> None:
    good, bad = job(4), job(4, prompt=(13,))
    with started(scripted()) as (worker, _):
        worker.submit([good, bad])
        kept, refused = wait(good, bad)
    assert len(kept.ids) == 4
    assert isinstance(refused.error, JaxLMError)


def test_a_failure_is_told_to_all(scripted: Make, caplog: pytest.LogCaptureFixture) -> None:
    jobs = [job(100) for _ in range(6)]
    with started(scripted(fail_at=3)) as (worker, _):
        worker.submit(jobs)
        assert {str(kept.error) for kept in wait(*jobs)} == {"out of memory"}
        with pytest.raises(NotServing):
            worker.submit([job()])
    assert str(worker.error) == "out of memory"
    assert "decoding failed; the server ends" in caplog.text


def test_prompts_that_are_too_much_together_are_read_alone(
    scripted: Make, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = [job(4) for _ in range(6)]
    with started(scripted(most_read=1)) as (worker, _):
        worker.submit(jobs)
        assert [len(kept.ids) for kept in wait(*jobs)] == [4] * 6
        assert worker.error is None
    assert "prompts could not be read; other texts go on" in caplog.text


def test_a_prompt_that_cannot_be_read_is_told_and_the_others_go_on(scripted: Make) -> None:
    running, failing, later = job(10_000), job(), job(2)
    decoder = scripted(pace=0.001)
    with started(decoder) as (worker, _):
        worker.submit([running])
        while not running.reader.ids:  # type: ignore[attr-defined]
            time.sleep(0.001)
        decoder.most_read = 0
        worker.submit([failing])
        assert str(wait(failing)[0].error) == "out of memory"
        decoder.most_read = 1
        worker.submit([later])
        assert len(wait(later)[0].ids) == 2
        assert running.reader.error is None  # type: ignore[attr-defined]
        assert (worker.num_running, worker.num_waiting) == (1, 0)


def test_an_admission_that_loses_the_texts_is_told_to_all(scripted: Make) -> None:
    jobs = [job(100) for _ in range(6)]
    with started(scripted(num_slots=2, most_read=0, intact=False)) as (worker, _):
        worker.submit(jobs)
        assert {str(kept.error) for kept in wait(*jobs)} == {"out of memory"}
        assert (worker.num_running, worker.num_waiting) == (0, 0)
        with pytest.raises(NotServing):
            worker.submit([job()])
    assert str(worker.error) == "out of memory"


def test_texts_whose_prompts_are_read_are_counted(scripted: Make) -> None:
    with started(scripted(num_slots=2, reading=0.3), max_queue=2) as (worker, _):
        worker.submit([job() for _ in range(4)])
        time.sleep(0.1)
        assert (worker.num_running, worker.num_waiting) == (2, 2)
        with pytest.raises(QueueFull):
            worker.submit([job()])


def test_few_long_prompts_are_read_between_two_steps(scripted: Make) -> None:
    decoder, admitted = scripted(num_slots=8, context_length=5000), []
    admit = decoder.admit
    decoder.admit = lambda requests: admitted.append(len(requests)) or admit(requests)
    jobs = [job(3, (1,) * length) for length in (1500, 500, 500, 10, 3000, 10)]
    with started(decoder) as (worker, _):
        worker.submit(jobs)
        wait(*jobs)
    assert admitted == [2, 2, 1, 1]


def test_stopping_tells_those_who_wait(scripted: Make) -> None:
    one = job(10_000)
    with started(scripted(pace=0.005)) as (worker, _):
        worker.submit([one])
    assert isinstance(wait(one)[0].error, NotServing)


def test_a_reader_that_fails_is_alone(scripted: Make, caplog: pytest.LogCaptureFixture) -> None:
    class Clumsy(Kept):
        def take(self, drawn: Drawn) -> None:
            raise ValueError("not a text")

    clumsy, fine = Job(job().request, Clumsy()), job(3)
    with started(scripted()) as (worker, _):
        worker.submit([clumsy, fine])
        failed, kept = wait(clumsy, fine)
    assert str(failed.error) == "not a text"
    assert len(kept.ids) == 3
    assert "could not be read" in caplog.text

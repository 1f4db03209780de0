"""The one thread that decodes: requests join the running batch at every step (continuous batching).

Yu et al. 2022 (Orca, OSDI), where a finished text leaves the batch and a waiting one takes its
place without the others noticing.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence

from jax_lm.errors import JaxLMError
from jax_lm.generation.requests import Drawn
from jax_lm.generation.slots import TOKENS_AT_ONCE
from jax_lm.serving.decoding.jobs import Decoding, Job, NotServing, QueueFull
from jax_lm.training.freed_memory import give_back_freed_memory

GIVE_BACK_EVERY = 256
"""Steps after which memory that was freed goes back to the system: reading prompts of ever other
sizes leaves gaps, which double what a busy server holds. Takes milliseconds."""
LOG = logging.getLogger("jax_lm.serving")

Post = Callable[[Callable[[], None]], None]
"""Runs something in the event loop's thread, soon."""


class Worker:
    """Owns a decoder; everything but its own thread only puts jobs in or takes them out."""

    def __init__(self, decoder: Decoding, *, max_queue: int) -> None:
        self._decoder = decoder
        self._capacity = decoder.num_slots + max_queue
        self._waiting: deque[Job] = deque()
        self._seating: list[Job] = []
        self._running: dict[int, Job] = {}
        self._abandoned: set[Job] = set()
        self._changed = threading.Condition()
        self._stopping = False
        self._error: Exception | None = None
        self._post: Post = _nowhere
        self._steps = 0
        self._thread = threading.Thread(target=self._run, name="decoding", daemon=True)

    def start(self, post: Post) -> None:
        """Begin; ``post`` carries what is written to those who wait for it."""
        self._post = post
        self._thread.start()

    def stop(self) -> None:
        """End after the step under way, without waiting for it; texts not finished fail."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def join(self, timeout: float) -> None:
        """Wait for the end of the step under way."""
        if self._thread.is_alive():
            self._thread.join(timeout)

    @property
    def context_length(self) -> int:
        """Most tokens that the model sees."""
        return self._decoder.context_length

    @property
    def capacity(self) -> int:
        """Most texts that run and wait."""
        return self._capacity

    @property
    def num_slots(self) -> int:
        """Most texts that run."""
        return self._decoder.num_slots

    @property
    def num_waiting(self) -> int:
        """Texts without a slot yet."""
        with self._changed:
            return len(self._waiting)

    @property
    def num_running(self) -> int:
        """Texts that have a slot, those whose prompt is being read among them."""
        with self._changed:
            return len(self._seating) + len(self._running)

    @property
    def error(self) -> Exception | None:
        """What the thread died of."""
        return self._error

    def submit(self, jobs: Sequence[Job]) -> None:
        """Put jobs in the queue, all or none.

        Raises:
            QueueFull: they do not fit.
            NotServing: the thread takes no more work.
        """
        with self._changed:
            if self._stopping or self._error is not None:
                raise NotServing
            held = len(self._waiting) + len(self._seating) + len(self._running)
            if held + len(jobs) > self._capacity:
                raise QueueFull
            self._waiting.extend(jobs)
            self._changed.notify()

    def abandon(self, jobs: Sequence[Job]) -> None:
        """Nobody waits for these any more; those that have ended already are left alone."""
        with self._changed:
            for job in jobs:
                if job in self._waiting:
                    self._waiting.remove(job)
                elif job.slot is not None:
                    self._abandoned.add(job)
            self._changed.notify()

    def _run(self) -> None:
        try:
            while self._work():
                self._release_abandoned()
                self._admit()
                if self._running:
                    self._step()
                    self._steps += 1
                    if self._steps % GIVE_BACK_EVERY == 0:
                        give_back_freed_memory()
            self._fail_all(NotServing())
        except Exception as error:
            LOG.exception("decoding failed; the server ends")
            self._error = error
            self._fail_all(error)

    def _work(self) -> bool:
        """Wait until there is something to do; False once the thread should end."""
        with self._changed:
            while not (self._stopping or self._waiting or self._running or self._abandoned):
                self._changed.wait()
            return not self._stopping

    def _release_abandoned(self) -> None:
        with self._changed:
            abandoned, self._abandoned = self._abandoned, set()
        for job in abandoned:
            # It may have finished meanwhile, and its slot may be another's.
            if job.slot is not None and self._running.get(job.slot) is job:
                self._decoder.release(job.slot)
                self._leave(job)

    def _admit(self) -> None:
        jobs = self._next()
        if not jobs:
            return
        try:
            self._seat(jobs)
        except Exception as error:
            self._check_intact(error)
            for job in jobs:
                self._admit_alone(job)

    def _next(self) -> list[Job]:
        """Those to admit now: of long prompts few, so that texts under way wait a little only."""
        jobs: list[Job] = []
        with self._changed:
            tokens, free = 0, self._decoder.num_free
            while self._waiting and len(jobs) < free:
                tokens += len(self._waiting[0].request.prompt)
                if jobs and tokens > TOKENS_AT_ONCE:
                    break
                jobs.append(self._waiting.popleft())
                # A slot at once, so that a job is always either waiting or abandonable.
                jobs[-1].slot = -1
            self._seating = list(jobs)
        return jobs

    def _admit_alone(self, job: Job) -> None:
        """One request of a batch was bad, or all together too large: only that one suffers."""
        try:
            self._seat([job])
        except Exception as error:
            self._check_intact(error)
            with self._changed:
                self._seating.remove(job)
                job.slot = None
            refusal = error
            self._post(lambda: job.reader.fail(refusal))

    def _check_intact(self, error: Exception) -> None:
        """Go on after a failed admission, unless it took the texts under way with it."""
        if isinstance(error, JaxLMError):
            return
        if not self._decoder.intact:
            raise error
        LOG.error("prompts could not be read; other texts go on", exc_info=error)

    def _seat(self, jobs: Sequence[Job]) -> None:
        slots = self._decoder.admit([job.request for job in jobs])
        with self._changed:
            for job, slot in zip(jobs, slots, strict=True):
                self._seating.remove(job)
                job.slot = slot
                self._running[slot] = job

    def _step(self) -> None:
        """One token of each text, carried over together: one wake-up a step, not one a token."""
        batch: list[tuple[Job, Drawn]] = []
        for drawn in self._decoder.step():
            job = self._running[drawn.slot]
            batch.append((job, drawn))
            if drawn.finish is not None:
                self._leave(job)
        self._post(lambda: self._deliver(batch))

    def _deliver(self, batch: Sequence[tuple[Job, Drawn]]) -> None:
        for job, drawn in batch:
            try:
                job.reader.take(drawn)
            except Exception as error:  # one text's trouble is not the others'
                LOG.exception("a text could not be read")
                job.reader.fail(error)
                self.abandon([job])

    def _leave(self, job: Job) -> None:
        assert job.slot is not None
        del self._running[job.slot]
        job.slot = None

    def _fail_all(self, error: Exception) -> None:
        with self._changed:
            jobs = [*self._running.values(), *self._seating, *self._waiting]
            self._seating.clear()
            self._waiting.clear()
            self._running.clear()
        self._post(lambda: _fail(jobs, error))


def _fail(jobs: Sequence[Job], error: Exception) -> None:
    for job in jobs:
        job.reader.fail(error)


def _nowhere(run: Callable[[], None]) -> None:
    """Before the start nobody waits."""

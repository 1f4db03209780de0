import threading
import time
from io import StringIO

from jax_lm.training.stall import Watchdog


def waits_for(condition: object, seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.01)
    return False


def a_blocked_loader(release: threading.Event) -> None:
    release.wait(30)


def test_a_stall_is_told_once_with_every_stack_and_the_run_goes_on() -> None:
    stream, release = StringIO(), threading.Event()
    with Watchdog(0.05 / 60, stream=stream) as watchdog:
        watchdog.step(7)
        loader = threading.Thread(target=a_blocked_loader, args=(release,), name="loader")
        loader.start()
        with watchdog.phase("waiting for data"):
            assert waits_for(lambda: "What every thread does" in stream.getvalue())
            time.sleep(0.2)  # four limits more
        release.set()
        loader.join()
        assert "step 7 goes on" in stream.getvalue()
    said = stream.getvalue()
    assert said.startswith("jax-lm: step 7: waiting for data for 0.")
    assert said.count("(--stall-minutes 0.000833333)") == 1
    assert "thread loader" in said and "a_blocked_loader" in said
    assert "thread MainThread" in said and "waits_for" in said


def test_two_stalls_are_told_twice_each_by_its_name() -> None:
    stream = StringIO()
    with Watchdog(0.05 / 60, stream=stream) as watchdog:
        for name in ("compiling the training step", "evaluating"):
            with watchdog.phase(name):
                assert waits_for(lambda name=name: f": {name} for" in stream.getvalue())
    assert stream.getvalue().count("(--stall-minutes 0.000833333)") == 2


def test_what_moves_is_not_reported() -> None:
    stream = StringIO()
    now = [0.0]
    with Watchdog(1 / 60, stream=stream, clock=lambda: now[0]) as watchdog:
        for _ in range(10):
            now[0] += 0.9
            watchdog.alive()
        time.sleep(0.15)
    assert stream.getvalue() == ""


def test_no_limit_no_thread() -> None:
    before = threading.active_count()
    with Watchdog(0.0) as watchdog, watchdog.phase("computing"):
        assert threading.active_count() == before

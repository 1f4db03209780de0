"""Sending in the background, so that training waits for no network."""

import threading
from _thread import interrupt_main
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGTERM

from jax_lm.checkpoints.retention import Retention
from jax_lm.errors import JaxLMError, SavedAndStopped, StoppedByUser
from jax_lm.remote.directory import RemoteDirectory
from jax_lm.sharding.processes import first_decides, is_first
from jax_lm.training.remote.fetching import fetch_run
from jax_lm.training.remote.ownership import Ownership, TakenOver
from jax_lm.training.remote.sending import Sender

Say = Callable[[str], None]


@contextmanager
def kept_copy(
    run: Path, url: str | None, retention: Retention, *, resume: str, say: Say
) -> Iterator[Callable[[], None]]:
    """Keep a run directory on an object store as the one here is.

    Before: what is there is brought here. Inside: the function given asks for another look at what
    has changed; a thread sends it, one failure is one sentence, and the next call tries again. At
    the end all is sent, the final model too. Once another process has taken the run over nothing
    is sent, and this one is made to stop as by SIGTERM.

    Args:
        run: the working directory on this machine, which exists.
        url: of the run directory; None: it is the one on this machine, and nothing is done.
        retention: which checkpoints are kept.
        resume: ``auto`` or ``never``.
        say: receives what is done.

    Raises:
        JaxLMError: as ``fetch_run``; or the run was done and its end could not be sent.
        TakenOver: another process has taken the run over.
    """
    if url is None:
        yield _nothing
        return
    remote = RemoteDirectory(url)
    ownership = Ownership(remote)
    first_decides(lambda: fetch_run(run, remote, ownership, resume=resume, say=say))
    if not is_first():
        yield _nothing
        return
    copy = Copy(run, remote, ownership, retention, say)
    try:
        yield copy.changed
    except KeyboardInterrupt:  # a second Ctrl-C waits for nothing
        raise
    except BaseException as error:
        copy.close()
        if isinstance(error, (SavedAndStopped, StoppedByUser)) and copy.taken is not None:
            raise copy.taken from error
        raise
    copy.finish()


class Copy:
    """A thread that sends what has changed."""

    def __init__(
        self,
        run: Path,
        remote: RemoteDirectory,
        ownership: Ownership,
        retention: Retention,
        say: Say,
    ) -> None:
        """Start it; it waits to be told."""
        self._run, self._remote, self._ownership, self._say = run, remote, ownership, say
        self._sender = Sender(run, remote, retention, check=ownership.check)
        self.taken: TakenOver | None = None
        """Says who has taken the run over, if anybody has."""
        self._asked, self._closing, self._was_asked = threading.Event(), False, False
        self._thread = threading.Thread(target=self._work, name="upload", daemon=True)
        self._thread.start()

    def changed(self) -> None:
        """Ask for what has changed to be sent."""
        self._was_asked = True
        self._asked.set()

    def close(self) -> None:
        """Send what has changed, if anything can have, and end; a failure is told."""
        self._join()
        self._ownership.end()

    def finish(self) -> None:
        """Send all there is.

        Raises:
            JaxLMError: it could not be sent.
            TakenOver: another process has taken the run over.
        """
        self._was_asked = False  # what the thread would send is sent here
        self._join()
        try:
            self._sender.send()
            self._sender.send_final()
            self._ownership.end()
        except TakenOver:
            raise
        except (JaxLMError, OSError) as error:
            raise JaxLMError(
                f"{error}; the run is whole in {self._run}, and the same command with "
                "--resume auto sends it again"
            ) from error
        self._say(f"uploaded  {self._remote.shown}")

    def _join(self) -> None:
        self._closing = True
        self._asked.set()
        self._thread.join()

    def _work(self) -> None:
        while True:
            self._asked.wait()
            self._asked.clear()
            if self._was_asked and self.taken is None:
                self._try()
            if self._closing and not self._asked.is_set():
                return

    def _try(self) -> None:
        try:
            self._sender.send()
        except TakenOver as error:
            self.taken = error
            interrupt_main(SIGTERM)  # nothing happens where nobody listens
        except Exception as error:
            self._say(f"not uploaded, tried again with the next checkpoint or evaluation: {error}")


def _nothing() -> None:
    """The run directory is on this machine."""

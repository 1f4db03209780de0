"""Sending in the background, so that training waits for no network."""

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from jax_lm.checkpoints.retention import Retention
from jax_lm.errors import JaxLMError
from jax_lm.files.atomic import write_text
from jax_lm.remote.directory import RemoteDirectory
from jax_lm.sharding.processes import first_decides, is_first
from jax_lm.training.remote.fetching import fetch_run
from jax_lm.training.remote.sending import Sender

Say = Callable[[str], None]
SHARED = "_shared"


@contextmanager
def kept_copy(
    run: Path, url: str | None, retention: Retention, *, resume: str, say: Say
) -> Iterator[Callable[[], None]]:
    """Keep a run directory on an object store as the one here is.

    Before: what is there is brought here. Inside: the function given asks for another look at what
    has changed; a thread sends it, one failure is one sentence, and the next call tries again. At
    the end all is sent, the final model too.

    Args:
        run: the working directory on this machine, which exists.
        url: of the run directory; None: it is the one on this machine, and nothing is done.
        retention: which checkpoints are kept.
        resume: ``auto`` or ``never``.
        say: receives what is done.

    Raises:
        JaxLMError: as ``fetch_run``; nothing can be written there; or the run was done and its end
            could not be sent.
    """
    if url is None:
        yield _nothing
        return
    remote = RemoteDirectory(url)
    first_decides(lambda: fetch_run(run, remote, resume=resume, say=say))
    first_decides(remote.refuse_unwritable)
    _refuse_unshared(run, remote)
    if not is_first():
        yield _nothing
        return
    copy = Copy(run, remote, Sender(run, remote, retention), say)
    try:
        yield copy.changed
    except KeyboardInterrupt:  # a second Ctrl-C waits for nothing
        raise
    except BaseException:
        copy.close()
        raise
    copy.finish()


class Copy:
    """A thread that sends what has changed."""

    def __init__(self, run: Path, remote: RemoteDirectory, sender: Sender, say: Say) -> None:
        """Start it; it waits to be told."""
        self._run, self._remote, self._sender, self._say = run, remote, sender, say
        self._asked, self._closing, self._was_asked = threading.Event(), False, False
        self._thread = threading.Thread(target=self._work, name="upload", daemon=True)
        self._thread.start()

    def changed(self) -> None:
        """Ask for what has changed to be sent."""
        self._was_asked = True
        self._asked.set()

    def close(self) -> None:
        """Send what has changed, if anything can have, and end; a failure is told."""
        self._closing = True
        self._asked.set()
        self._thread.join()

    def finish(self) -> None:
        """Send all there is.

        Raises:
            JaxLMError: it could not be sent.
        """
        self._was_asked = False  # what the thread would send is sent here
        self.close()
        try:
            self._sender.send()
            self._sender.send_final()
        except (JaxLMError, OSError) as error:
            raise JaxLMError(
                f"{error}; the run is whole in {self._run}, and the same command with "
                "--resume auto sends it again"
            ) from error
        self._say(f"uploaded  {self._remote.shown}")

    def _work(self) -> None:
        while True:
            self._asked.wait()
            self._asked.clear()
            if self._was_asked:
                self._try()
            if self._closing and not self._asked.is_set():
                return

    def _try(self) -> None:
        try:
            self._sender.send()
        except Exception as error:
            self._say(f"not uploaded, tried again with the next checkpoint or evaluation: {error}")


def _refuse_unshared(run: Path, remote: RemoteDirectory) -> None:
    """Refuse several hosts that do not see each other's shards."""
    token = secrets.token_hex(8)

    def leave() -> str:
        write_text(run / SHARED, token)
        return token

    left = first_decides(leave)
    path = run / SHARED
    if not path.is_file() or path.read_text() != left:
        raise JaxLMError(
            f"--run-dir {remote.shown}: on several hosts the working directory {run} must lie on a "
            "disk that all of them share: set JAX_LM_CACHE to a directory there"
        )


def _nothing() -> None:
    """The run directory is on this machine."""

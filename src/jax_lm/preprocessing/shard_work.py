"""How a Beam worker goes through a run of shards: failures are recorded, never raised."""

import threading
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

from jax_lm.documents.base import DocumentSource
from jax_lm.errors import JaxLMError
from jax_lm.preprocessing.partial import has_failure, write_failure
from jax_lm.preprocessing.shards import Run, Shard

STOPPING = threading.Event()
"""Set where the threads of this process shall end after the shard they are at."""


def write_each(
    run: Run, folder: Path, source: DocumentSource, write: Callable[[Shard, DocumentSource], None]
) -> int:
    """Call ``write(shard, source)`` for each shard until one fails; returns how many were done.

    Documents that cannot be read or a file that cannot be written are recorded in the folder and
    not raised: runners would try again in vain and wrap the error in their own.

    Raises:
        OSError: not even the failure can be recorded.
    """
    source = deepcopy(source)  # its counts are this thread's own
    for count, shard in enumerate(run):
        if STOPPING.is_set() or has_failure(folder):
            return count
        try:
            write(shard, source)
        except (JaxLMError, OSError) as error:
            try:
                write_failure(folder, shard.index, _sentence(error))
            except OSError:  # a full disk, say
                raise error from None
            return count
    return len(run)


def _sentence(error: JaxLMError | OSError) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)

"""``hf-dataset:NAME[:CONFIG]`` -> a data set of the ``datasets`` library."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jax_lm.errors import JaxLMError, UsageError, missing_extra, nearest

SAVED = "state.json"
SAVED_SPLITS = "dataset_dict.json"
DEFAULT_SPLIT = "train"


@dataclass(frozen=True)
class HfDataset:
    """A data set by name, or in a local directory; loaded anew wherever it is needed."""

    shown: str
    """The SPEC, for errors."""
    name: str
    config: str | None = None
    split: str | None = None
    """None: ``train``, or the only one."""
    streaming: bool = False

    def load(self) -> Any:
        """The rows of the split: a ``Dataset``, or an ``IterableDataset`` if streaming.

        Raises:
            JaxLMError: there is no such data set, configuration or split; those there are are
                named.
        """
        datasets = _library()
        with self.told():
            if self._is_saved():
                return self._split_of(datasets.load_from_disk(self.name))
            if self.split is None:
                everything = datasets.load_dataset(self.name, self.config, streaming=self.streaming)
                return self._split_of(everything)
            return datasets.load_dataset(
                self.name, self.config, split=self.split, streaming=self.streaming
            )

    def fingerprint(self) -> str:
        """Hex sha256 that changes with the data set's files or revision, and with the split."""
        if self._is_saved():
            version = _version_of(Path(self.name))
        else:
            datasets = _library()
            with self.told():
                builder = datasets.load_dataset_builder(self.name, self.config)
                version = f"{builder.config_id} {builder.hash}"
        return hashlib.sha256(f"{version} {self.split or DEFAULT_SPLIT}".encode()).hexdigest()

    def _is_saved(self) -> bool:
        """Whether ``save_to_disk`` wrote it."""
        return any((Path(self.name) / name).is_file() for name in (SAVED, SAVED_SPLITS))

    def _split_of(self, loaded: Any) -> Any:
        if not isinstance(loaded, dict):  # a single saved split has no name to ask for
            return loaded
        names = list(loaded)
        split = self.split or (DEFAULT_SPLIT if DEFAULT_SPLIT in names else None)
        if split is None and len(names) == 1:
            split = names[0]
        if split not in loaded:
            listed = ", ".join(map(repr, names))
            wrong = "several splits" if split is None else f"no split {split!r}"
            close = "" if split is None else nearest(split, names)
            raise UsageError(f"{self.shown}: {wrong}; it has {listed}{close} (?split=NAME)")
        return loaded[split]

    def streams(self) -> bool:
        """Whether the rows are read in order only; what is saved on disk never needs to be."""
        return self.streaming and not self._is_saved()

    @contextmanager
    def told(self) -> Iterator[None]:
        """Turn any failure of the library into one sentence."""
        try:
            yield
        except JaxLMError:
            raise
        except Exception as error:  # of the hub, of HTTP, of Arrow, of a data set's own reader
            said = " ".join(str(error).split()) or type(error).__name__
            raise JaxLMError(f"{self.shown}: cannot be loaded: {said}") from error


def _version_of(folder: Path) -> str:
    """Names, sizes and times of all files that ``save_to_disk`` wrote."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    status = [(path.relative_to(folder).as_posix(), path.stat()) for path in files]
    return repr([(name, one.st_size, one.st_mtime_ns) for name, one in status])


def _library() -> Any:
    try:
        import datasets  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise missing_extra("datasets", "datasets", "reading hf-dataset: sources") from error
    return datasets

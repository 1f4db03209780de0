"""The documents that a published list names, by their numbers within their subset.

The Pile paper's results are of a tenth of the test set; its documents are published as one list of
numbers for each subset and group (github.com/EleutherAI/lm_perplexity,
``assets/test_subsample_indices/arxiv/group0.json``). A number counts the documents of its own
subset from 0. Three small subsets have no list, and are scored whole.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from jax_lm.documents.base import Cursor, DocumentRange, DocumentSource
from jax_lm.documents.open import open_source
from jax_lm.documents.reading import ReadingOptions
from jax_lm.documents.selection.selected import ASKED
from jax_lm.documents.wrapped import WrappedSource
from jax_lm.errors import JaxLMError, UsageError, nearest
from jax_lm.evaluation.options import EvaluateOptions
from jax_lm.types import Document

START = Cursor(0, 0)
PILE_FOLDERS: Mapping[str, str] = {
    "ArXiv": "arxiv",
    "BookCorpus2": "bookcorpus",
    "Books3": "bibliotik",
    "DM Mathematics": "dm-mathematics",
    "Enron Emails": "enron",
    "EuroParl": "europarl",
    "FreeLaw": "freelaw",
    "Github": "github",
    "Gutenberg (PG-19)": "gutenberg",
    "HackerNews": "hackernews",
    "NIH ExPorter": "nih-exporter",
    "OpenSubtitles": "opensubtitles",
    "OpenWebText2": "openwebtext2",
    "PhilPapers": "philpapers",
    "Pile-CC": "commoncrawl",
    "PubMed Abstracts": "pubmed-abstracts",
    "PubMed Central": "pubmed-central",
    "StackExchange": "stackexchange",
    "USPTO Backgrounds": "uspto",
    "Ubuntu IRC": "ubuntu-irc",
    "Wikipedia (en)": "wikipedia",
    "YoutubeSubtitles": "youtubesubtitles",
}
"""Folder of each of the Pile's subsets in the published lists."""


class _List(NamedTuple):
    """One file's numbers."""

    path: Path
    numbers: frozenset[int]


def open_chosen(specs: Sequence[str], options: EvaluateOptions) -> DocumentSource:
    """The documents of SPECs that the options ask for, by their numbers first.

    Raises:
        JaxLMError: nothing can be read, or the lists do not fit the text.
        UsageError: an option would change what the numbers count.
    """
    if options.document_indices is None:
        if options.group:
            raise UsageError("--group chooses among --document-indices: give those, or leave it")
        return open_source(specs, options)
    for flag, given in (
        ("--weights", options.weights),
        ("--on-bad-record skip", options.on_bad_record == "skip"),
    ):
        if given:
            raise UsageError(f"{flag} changes which document is which: leave it, or the indices")
    unselected = {name: getattr(ReadingOptions(), name) for name in ASKED}
    everything = open_source(specs, replace(options, **unselected, max_documents=None))
    chosen = ChosenSource(everything, options.document_indices, options.group)
    chosen.check()
    return open_source(chosen, options)


class ChosenSource(WrappedSource):
    """The documents of another source whose numbers within their subset are listed."""

    def __init__(self, source: DocumentSource, path: Path, group: int) -> None:
        """Read the lists.

        Args:
            source: all documents of every subset that a list counts.
            path: a JSON list, then the source has one subset; or a directory with one folder for
                each subset and ``groupN.json`` in it. Subsets without a folder are read whole.
            group: N.

        Raises:
            JaxLMError: there is no such list, or one is malformed.
            UsageError: a group of a single list.
        """
        self.source = source
        self._path, self._group = path, group
        self._lists = _read_lists(path, group)

    @property
    def name(self) -> str:
        """The source's, and where the lists are."""
        group = f", group {self._group}" if self._path.is_dir() else ""
        return f"{self.source.name} (documents listed in {self._path}{group})"

    def fingerprint(self) -> str:
        """Changes with the source and the lists."""
        lists = {name: sorted(one.numbers) for name, one in sorted(self._lists.items())}
        text = f"{self.source.fingerprint()} chosen {json.dumps(lists)}"
        return hashlib.sha256(text.encode()).hexdigest()

    def ranges(self, target_bytes: int) -> list[DocumentRange]:
        """The whole source's ranges; each is reached by counting from the start."""
        return self.source.ranges(target_bytes)

    def read(self, start: Cursor, stop: Cursor | None = None) -> Iterator[tuple[Cursor, Document]]:
        """Yield the listed documents; those before ``start`` are read to be counted."""
        seen: Counter[str] = Counter()
        before = START
        for cursor, document in self.source.read(START, stop):
            listed = self._list_of(document.subset)
            number = seen[document.subset]
            seen[document.subset] += 1
            if listed is not None and number not in listed.numbers:
                self.dropped["not in the list of documents"] += 1
            elif before >= start:
                yield cursor, document
            before = cursor

    def check(self) -> None:
        """Read all documents once, to know before hours of work that the lists fit them.

        Raises:
            JaxLMError: a list names a document or a subset that is not there, or one list is to
                count the documents of several.
        """
        seen = Counter(document.subset for _, document in self.source.read(START))
        if not self._path.is_dir() and len(seen) > 1:
            raise JaxLMError(
                f"{self._path}: one list counts the documents of one subset, and the text has "
                f"{', '.join(sorted(map(repr, seen)))}: name a directory with a list for each, or "
                "a SPEC of one subset"
            )
        self._check_ends(seen)

    def _list_of(self, subset: str) -> _List | None:
        if not self._path.is_dir():
            return self._lists[""]
        folder = subset if subset in self._lists else PILE_FOLDERS.get(subset, subset)
        return self._lists.get(folder)

    def _check_ends(self, seen: Counter[str]) -> None:
        counts = {PILE_FOLDERS.get(name, name): count for name, count in seen.items()} | seen
        for folder, listed in self._lists.items():
            count = counts.get(folder) if self._path.is_dir() else seen.total()
            if count is None:
                known = ", ".join(sorted(map(repr, seen))) or "none"
                raise JaxLMError(
                    f"{listed.path}: the text has no subset {folder!r} (it has {known})"
                    f"{nearest(folder, seen)}"
                )
            last = max(listed.numbers, default=-1)
            if last >= count:
                where = f"subset {folder!r}" if folder else "the text"
                raise JaxLMError(
                    f"{listed.path}: document {last:,} is listed, and {where} has {count:,}, "
                    "counted from 0"
                )


def _read_lists(path: Path, group: int) -> dict[str, _List]:
    """Lists by folder; a single one under no name."""
    if path.is_file():
        if group:
            raise UsageError(f"--group {group}: {path} is one list; name the directory of groups")
        return {"": _read_list(path)}
    if not path.is_dir():
        raise JaxLMError(f"{path}: no such file or directory, for --document-indices")
    found = sorted(path.glob(f"*/group{group}.json"))
    if not found:
        raise JaxLMError(f"{path}: no list SUBSET/group{group}.json there")
    return {file.parent.name: _read_list(file) for file in found}


def _read_list(path: Path) -> _List:
    try:
        values: Any = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, ValueError) as error:
        raise JaxLMError(f"{path}: not JSON: {error}") from error
    if not isinstance(values, list):
        raise JaxLMError(f"{path}: expected a JSON list of document numbers")
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise JaxLMError(f"{path}: {value!r} is no document number; expected 0 or more")
    return _List(path, frozenset(values))

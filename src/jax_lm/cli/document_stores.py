"""``jax-lm documents build|export|verify``: stores with random access, and text out of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from jax_lm.cli.actions import Action
from jax_lm.cli.arguments import parse
from jax_lm.cli.source_arguments import SourceArguments
from jax_lm.documents.stores.exporting import ExportOptions, export
from jax_lm.documents.stores.making import StoreOptions, make_store
from jax_lm.documents.stores.verifying import verify_store

BUILD = """Put documents into a store with random access. An interrupted build goes on when the
same command is given again. Example: jax-lm documents build 'corpus/*.jsonl' --output corpus.db"""
EXPORT = """Write documents out as text files, all or a random sample.
Example: jax-lm documents export sqlite:corpus.db --sample 1000 --output sample --files 4"""
VERIFY = "Check every byte of a store. Example: jax-lm documents verify sqlite:corpus.db"


@dataclass(frozen=True, kw_only=True)
class BuildArguments(SourceArguments, StoreOptions):
    """Flags of ``documents build``."""

    output: Annotated[str, tyro.conf.arg(aliases=["--output-path"])]
    """A file such as corpus.db, a directory with --shard-documents, or
    mongodb://HOST/DB?collections=NAME."""

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        SourceArguments.__post_init__(self)
        StoreOptions.__post_init__(self)


@dataclass(frozen=True, kw_only=True)
class ExportArguments(SourceArguments, ExportOptions):
    """Flags of ``documents export``."""

    output: Annotated[Path, tyro.conf.arg(aliases=["--output-path"])]
    """Directory for the files."""

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        SourceArguments.__post_init__(self)
        ExportOptions.__post_init__(self)


@dataclass(frozen=True, kw_only=True)
class VerifyArguments:
    """Flags of ``documents verify``."""

    store: tyro.conf.Positional[str]
    """sqlite:PATH, or mongodb://HOST/DB?collections=a,b."""


def _build(args: list[str], prog: str, description: str) -> None:
    given = parse(BuildArguments, args, prog, description)
    print(*make_store(given.spec, given, given.output, given, say=_say), sep="\n")


def _export(args: list[str], prog: str, description: str) -> None:
    given = parse(ExportArguments, args, prog, description)
    done = export(given.open(), given.output, given)
    files = "1 file" if given.files == 1 else f"{given.files:,} files"
    print(f"{done.documents:,} of {done.of:,} documents in {files} of {given.output}")
    for reason, number in sorted(done.left_out.items()):
        print(f"left out: {number:,} {reason}")
    if done.escaped:
        print(
            f"in {done.escaped:,} of them line breaks became \\n or \\r and backslashes \\\\, so "
            "that each is one line; --format jsonl keeps the text as it is"
        )


def _verify(args: list[str], prog: str, description: str) -> None:
    print(verify_store(parse(VerifyArguments, args, prog, description).store))


def _say(line: str) -> None:
    print(line, flush=True)


STORE_ACTIONS = {
    "build": Action(_build, BUILD),
    "export": Action(_export, EXPORT),
    "verify": Action(_verify, VERIFY),
}

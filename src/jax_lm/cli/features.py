"""``jax-lm features``: look at feature rows and check every byte."""

import sys
from dataclasses import dataclass
from typing import Annotated

import tyro

from jax_lm.cli.arguments import parse
from jax_lm.errors import JaxLMError, UsageError, nearest
from jax_lm.preprocessing.describe import describe, details
from jax_lm.preprocessing.features import open_features, read_row
from jax_lm.preprocessing.manifest import read_manifest, tokenizer_directory
from jax_lm.preprocessing.show import show_row
from jax_lm.preprocessing.verify import verify_features
from jax_lm.tokenizers.pretrained import load_tokenizer

USAGE = """usage: jax-lm features info PREFIX | show PREFIX -i N | verify PREFIX

  info    what the set holds, its settings and its files
  show    the text of row N; what is not scored is dim, or in ⟦ ⟧
  verify  check every file's sha256, columns, ids, padding and counts

example: jax-lm features show features/train -i 0"""


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Flags of ``features info`` and ``features verify``."""

    prefix: tyro.conf.Positional[str]
    """What was given to preprocess as --output."""


@dataclass(frozen=True, kw_only=True)
class ShowArguments(Arguments):
    """Flags of ``features show``."""

    index: Annotated[int, tyro.conf.arg(aliases=["-i"])] = 0
    """Which row, counted from 0 over all files."""


def main(args: list[str]) -> None:
    """Run one of the verb's three parts."""
    part = args[0] if args else ""
    parts = {"info": _info, "show": _show, "verify": _verify}
    if part in ("-h", "--help"):
        print(USAGE)
    elif part in parts:
        parts[part](args[1:])
    else:
        raise UsageError(
            f"features {part or '(nothing)'}: expected info, show or verify"
            f"{nearest(part, parts)}; see jax-lm features --help"
        )


def _info(args: list[str]) -> None:
    prefix = parse(Arguments, args, "jax-lm features info", USAGE).prefix
    manifest = open_features(prefix)
    tokenizer = load_tokenizer(tokenizer_directory(prefix))
    print("\n".join([*describe(prefix, manifest, tokenizer), *details(manifest)]))


def _show(args: list[str]) -> None:
    given = parse(ShowArguments, args, "jax-lm features show", USAGE)
    manifest = read_manifest(given.prefix)
    row = read_row(given.prefix, manifest, given.index)
    tokenizer = load_tokenizer(tokenizer_directory(given.prefix))
    print("\n".join(show_row(row, manifest, tokenizer, color=sys.stdout.isatty())))


def _verify(args: list[str]) -> None:
    prefix = parse(Arguments, args, "jax-lm features verify", USAGE).prefix
    found = verify_features(prefix)
    if found.problems:
        raise JaxLMError("; ".join(found.problems))
    print(f"{found.files} files, {found.rows:,} rows verified")

"""Whether a directory's tensors are those that a table asks for; every one at fault is named."""

from collections.abc import Iterator, Mapping

import numpy as np

from jax_lm.errors import JaxLMError
from jax_lm.huggingface.mapping import Table
from jax_lm.huggingface.safetensors_files import FLOAT_DTYPES
from jax_lm.huggingface.tensor_files import TensorFiles

Shapes = Mapping[str, tuple[int, ...]]


def stored_names(files: TensorFiles, table: Table) -> dict[str, str]:
    """What each tensor is called in the files, by its name in the table."""
    stored: dict[str, str] = {}
    for name in files.infos:
        short = table.short_name(name)
        if not table.ignored.fullmatch(short):
            # A name there both with and without the prefix is one too many.
            stored[table.prefix + short if short in stored else short] = name
    return stored


def refuse_differences(
    files: TensorFiles, stored: Mapping[str, str], table: Table, expected: Shapes
) -> None:
    """Compare names, shapes and dtypes.

    Raises:
        JaxLMError: they differ.
    """
    heads = {name for rule in table.heads for name, _ in rule.places(1)}
    needed = [name for name in expected if name not in {*stored, *table.optional}]
    missing = [name if name in heads else table.prefix + name for name in needed]
    tied = {copy: expected[original] for copy, original in table.tied.items()}
    problems = [
        *_list("missing", missing),
        *_list("unexpected", [n for s, n in stored.items() if s not in {*expected, *tied}]),
        *_ill_formed(files, stored, {**expected, **tied}),
    ]
    if problems:
        raise JaxLMError(
            f"{files.where}: the weights do not fit the configuration: {'; '.join(problems)}"
        )


def refuse_untied(files: TensorFiles, stored: Mapping[str, str], table: Table) -> None:
    """Compare copies with what they are copies of.

    Raises:
        JaxLMError: they differ.
    """
    differing = [
        f"{stored[copy]} from {stored[original]}"
        for copy, original in table.tied.items()
        if copy in stored and not _equal(files, stored[copy], stored[original])
    ]
    if differing:
        raise JaxLMError(
            f"{files.where}: tensors that must be tied are not: {', '.join(differing)} differs; "
            "by config.json they are one"
        )


def _equal(files: TensorFiles, one: str, other: str) -> bool:
    with files.view(one) as left, files.view(other) as right:
        # Row by row: comparing whole tables would make arrays of their size.
        return all(
            np.array_equal(a.astype(np.float32), b.astype(np.float32), equal_nan=True)
            for a, b in zip(left, right, strict=True)
        )


def _ill_formed(files: TensorFiles, stored: Mapping[str, str], expected: Shapes) -> Iterator[str]:
    for short, shape in expected.items():
        if short not in stored:
            continue
        name = stored[short]
        info = files.infos[name]
        if info.shape != shape:
            yield f"{name} has shape {info.shape}, expected {shape}"
        if info.dtype not in FLOAT_DTYPES:
            yield f"{name} has dtype {info.dtype}, expected one of {', '.join(FLOAT_DTYPES)}"


def _list(what: str, names: list[str]) -> list[str]:
    return [f"{what} {', '.join(names)}"] if names else []

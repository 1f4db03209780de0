"""A recipe as Python to copy: the function, and what it needs of its module."""

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping

LONGEST_LINE = 100
OURS = "from jax_lm"


def source_of(recipe: Callable[[], object]) -> str:
    """Python that defines one recipe: the imports and functions of its module that it uses.

    Args:
        recipe: a function of a module that holds imports (``from ... import``) and functions.
    """
    module = inspect.getmodule(recipe)
    assert module is not None
    text = inspect.getsource(module)
    body = ast.parse(text).body
    functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
    wanted = set(_needed(recipe.__name__, functions))
    kept = [node for name, node in functions.items() if name in wanted]
    used = {name for node in kept for name in _names(node)}
    imports = [_import(node, used) for node in body if isinstance(node, ast.ImportFrom)]
    others = [line for line in imports if line and not line.startswith(OURS)]
    ours = [line for line in imports if line.startswith(OURS)]
    head = "\n\n".join("\n".join(group) for group in (others, ours) if group)
    blocks = [ast.get_source_segment(text, node) or "" for node in kept]
    return "\n\n\n".join([head, *blocks])


def _needed(name: str, functions: Mapping[str, ast.FunctionDef]) -> Iterator[str]:
    """A function's name, and those of all that it calls, directly or not."""
    yield name
    for called in sorted(_names(functions[name]) & functions.keys() - {name}):
        yield from _needed(called, functions)


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _import(node: ast.ImportFrom, used: set[str]) -> str:
    """The import of what is used, or an empty string."""
    names = [alias.name for alias in node.names if alias.name in used]
    line = f"from {node.module} import {', '.join(names)}"
    if len(line) > LONGEST_LINE:
        listed = "".join(f"    {name},\n" for name in names)
        line = f"from {node.module} import (\n{listed})"
    return line if names else ""

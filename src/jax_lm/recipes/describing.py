"""What a recipe says about itself, for people: the parts of its docstring."""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from jax_lm.recipes.registry import RECIPES

Recipe = Callable[[], object]
PARTS = ("Size", "Data", "Cost", "Reaches", "Source")
LISTED = ("Size", "Cost", "Reaches")
"""What the list of all recipes says of each, in a sentence."""
WIDTH, PAGE_WIDTH = 96, 120


class Description(NamedTuple):
    """A recipe's docstring, taken apart."""

    title: str
    parts: Mapping[str, str]
    """Each on one line, by its first word; Source may be missing."""


def describe(recipe: Recipe) -> Description:
    """The first line of a recipe's docstring, and its parts."""
    title, _, rest = (inspect.getdoc(recipe) or "").partition("\n\n")
    found = re.split(rf"^({'|'.join(PARTS)}): ", rest, flags=re.MULTILINE)[1:]
    texts = zip(found[::2], found[1::2], strict=True)
    return Description(title, {name: " ".join(text.split()) for name, text in texts})


def listing() -> Iterator[str]:
    """Lines with every recipe: its name, what it is, size, cost and expected result."""
    for name, recipe in RECIPES.items():
        title, parts = describe(recipe)
        yield name
        yield from _wrapped(title)
        for part in LISTED:
            yield from _part(part, _first_sentence(parts[part]))
        yield ""


def full(name: str, recipe: Recipe) -> Iterator[str]:
    """Lines with all that one recipe says."""
    title, parts = describe(recipe)
    yield name
    yield from _wrapped(title)
    for part, text in parts.items():
        yield from _part(part, text)


def page() -> Iterator[str]:
    """Markdown: a table of all recipes, then each in full."""
    yield "| recipe | what | parameters | reaches |"
    yield "|---|---|---|---|"
    for name, recipe in RECIPES.items():
        title, parts = describe(recipe)
        size = parts["Size"].partition(" parameters")[0]
        reaches = _first_sentence(parts["Reaches"]).rstrip(".")
        yield f"| [`{name}`](#{name}) | {title.rstrip('.')} | {size} | {_code(reaches)} |"
    for name, recipe in RECIPES.items():
        title, parts = describe(recipe)
        yield from ("", f"## {name}", "", title, "")
        for part, text in parts.items():
            yield from _wrapped(f"**{part}**: {_code(text)}", "- ", PAGE_WIDTH)


def _part(name: str, text: str) -> list[str]:
    """A part beside its name, in a column of its own."""
    lead = f"    {name.lower():9}"
    return _wrapped(text.replace("``", ""), lead)


def _wrapped(text: str, lead: str = "  ", width: int = WIDTH) -> list[str]:
    """Lines that begin with ``lead`` or, after the first, as far to the right."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_on_hyphens=False,
    )


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.]) (?=[A-Z`\d])", text, maxsplit=1)[0]


def _code(text: str) -> str:
    """Python's marks of code as Markdown's; tags that are no code are marked too."""
    return re.sub(r"(<\S+>)", r"`\1`", text.replace("``", "`"))

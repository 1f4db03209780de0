"""Sets of characters by name, and what is left of a text in which no others are allowed."""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from jax_lm.errors import UsageError, nearest

WHITE_SPACE = r"\t\n\r "
OTHER_PUNCTUATION = (
    r"\u00a1\u00a7\u00ab\u00b6\u00b7\u00bb\u00bf\u2010-\u2027\u2030-\u205e\u3001-\u3003"
    r"\u3008-\u3011\u3014-\u301f\u30fb\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
)
NAMED_SETS = {
    "ascii": r"\x21-\x7e",
    "digits": "0-9",
    "punctuation": rf"!-/:-@\[-`{{-~{OTHER_PUNCTUATION}",
    "latin": r"A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0300-\u036f\u1e00-\u1eff",
    "greek": r"\u0370-\u03ff\u1f00-\u1fff",
    "cyrillic": r"\u0400-\u052f\u1c80-\u1c8f\u2de0-\u2dff\ua640-\ua69f",
    "hebrew": r"\u0590-\u05ff\ufb1d-\ufb4f",
    "arabic": r"\u0600-\u06ff\u0750-\u077f\u0870-\u08ff\ufb50-\ufdff\ufe70-\ufefc",
    "devanagari": r"\u0900-\u097f\u1cd0-\u1cff\ua8e0-\ua8ff",
    "thai": r"\u0e01-\u0e5b",
    "hangul": r"\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb",
    "kana": r"\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f",
    "han": r"\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af",
    "emoji": (
        r"\u00a9\u00ae\u200d\u203c\u2049\u20e3\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u24c2"
        r"\u25aa-\u25fe\u2600-\u27bf\u2934\u2935\u2b05-\u2b55\u3030\u303d\u3297\u3299\ufe0f"
        r"\U0001f004\U0001f0cf\U0001f170-\U0001f251\U0001f300-\U0001faff\U000e0020-\U000e007f"
    ),
}
"""Inside of a regular expression's character class; white space belongs to every named set.

The blocks are those of the Unicode standard's scripts; an emoji's joiners and variation selector
count as emoji.
"""
DSGPT2 = "dsgpt2"
PRESETS = {
    DSGPT2: rf"!\"\$-~{OTHER_PUNCTUATION}{NAMED_SETS['hangul']}{NAMED_SETS['emoji']}",
}
"""Presets: what dsGPT2's upload keeps is ASCII without ``#``, Hangul, punctuation and emoji."""
CHARACTER_CLASS = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL)


@lru_cache(maxsize=8)
def keep_characters(allowed: str) -> Callable[[str], str]:
    """A function that takes all other characters out of a text.

    Args:
        allowed: names of sets joined by commas, such as ``latin,digits,punctuation``, or a
            regular expression's character class, such as ``[a-zA-Z ]``, which says all.

    Raises:
        UsageError: a name is unknown or the class is no regular expression.
    """
    if allowed.lstrip().startswith("["):
        kept = re.compile(_character_class(allowed.strip()) + "+")
        return lambda text: "".join(kept.findall(text))
    names = [name.strip().lower() for name in allowed.split(",")]
    others = re.compile(f"[^{WHITE_SPACE}{''.join(_sets(names))}]+")
    return lambda text: others.sub("", text)


def _sets(names: Iterable[str]) -> Iterable[str]:
    known = {**NAMED_SETS, **PRESETS}
    for name in names:
        if name not in known:
            raise UsageError(
                f"--allowed-characters: no set {name!r}{nearest(name, known)} (expected "
                f"{', '.join(known)}, or a character class such as [a-zA-Z ])"
            )
        yield known[name]


def _character_class(written: str) -> str:
    if CHARACTER_CLASS.fullmatch(written) is None:
        raise UsageError(
            f"--allowed-characters: {written!r} is not one character class such as [a-zA-Z ]"
        )
    try:
        re.compile(written)
    except re.error as error:
        raise UsageError(
            f"--allowed-characters: {written!r} is not a character class: {error.msg}"
        ) from error
    return written

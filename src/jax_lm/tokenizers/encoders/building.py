"""Encoders by name."""

import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from textwrap import shorten

from jax_lm.errors import JaxLMError, missing_extra
from jax_lm.tokenizers.encoders.base import Encoder, Engine
from jax_lm.tokenizers.encoders.fastokens import FastokensEncoder
from jax_lm.tokenizers.encoders.gigatoken import GigatokenEncoder
from jax_lm.tokenizers.encoders.library import LibraryEncoder

BUILD: dict[Engine, Callable[[str], Encoder]] = {
    "tokenizers": LibraryEncoder,
    "gigatoken": GigatokenEncoder,
    "fastokens": FastokensEncoder,
}

REASON_WIDTH = 70


class Refused(JaxLMError):
    """An encoder does not take a tokenizer."""


def build_encoder(name: Engine, description: str) -> Encoder:
    """The encoder of a name for the text of a ``tokenizer.json``.

    Raises:
        Refused: it does not take this tokenizer.
        JaxLMError: its package is not installed, or there is no such encoder.
    """
    if name not in BUILD:
        raise JaxLMError(f"no encoder is named {name!r}; expected one of {', '.join(BUILD)}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of packages that the encoders import
            return BUILD[name](description)
    except ImportError as error:
        raise missing_extra(name, "fast", f"the encoder {name}") from error
    except Exception as error:  # they raise nothing narrower
        reason = shorten(str(error).split("\n", 1)[0], REASON_WIDTH, placeholder=" ...")
        raise Refused(f"{name} does not take this tokenizer ({reason})") from error


def installed_version(name: Engine) -> str | None:
    """The version of an encoder's package, None where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None

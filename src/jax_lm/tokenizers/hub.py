"""A name on the Hugging Face hub: files of it, from the cache or downloaded into it."""

import re
from collections.abc import Sequence
from pathlib import Path

from jax_lm.errors import JaxLMError

NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?(@[\w./-]+)?")
FILES = (
    "added_tokens.json",
    "chat_template.jinja",
    "merges.txt",
    "sentencepiece.bpe.model",
    "special_tokens_map.json",
    "spiece.model",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
)
"""A tokenizer's."""


def is_hub_name(place: str) -> bool:
    """Whether a place that does not exist here may be a name, such as ``gpt2`` or ``org/name``.

    A revision may follow: ``org/name@main``.
    """
    return NAME.fullmatch(place) is not None and not place.endswith((".json", ".model", ".txt"))


def hub_directory(name: str, files: Sequence[str] = FILES, *, what: str = "tokenizer") -> Path:
    """A directory with files of a name; nothing else is downloaded.

    ``HF_HOME``, ``HF_TOKEN``, ``HF_HUB_OFFLINE`` and ``HF_ENDPOINT`` mean what they mean elsewhere.

    Args:
        name: ``NAME`` or ``NAME@REVISION``.
        files: names and patterns of what is needed.
        what: they make up, for messages.

    Raises:
        JaxLMError: there is no such name, or it cannot be reached.
    """
    import huggingface_hub
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    repository, _, revision = name.partition("@")
    where = f"{name}: no such file or directory here, and"
    try:
        return Path(
            huggingface_hub.snapshot_download(
                repository, revision=revision or None, allow_patterns=list(files)
            )
        )
    except GatedRepoError as error:
        raise JaxLMError(
            f"{where} the hub gives it only to those who were granted it; set HF_TOKEN"
        ) from error
    except (RepositoryNotFoundError, RevisionNotFoundError, HFValidationError) as error:
        raise JaxLMError(
            f"{where} no such name on the Hugging Face hub; mend it, or set HF_TOKEN if it is "
            "private"
        ) from error
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        offline = huggingface_hub.constants.HF_HUB_OFFLINE
        why = "HF_HUB_OFFLINE is set" if offline else "the hub cannot be reached"
        raise JaxLMError(
            f"{where} not in the hub cache either, while {why}; name a {what} that is here"
        ) from error

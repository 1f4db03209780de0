"""A name on the Hugging Face hub: its tokenizer files, from the cache or downloaded into it."""

import re
from pathlib import Path

from jax_lm.errors import JaxLMError

NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
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
"""All that is ever downloaded; no weights."""


def is_hub_name(place: str) -> bool:
    """Whether a place that does not exist here may be a name, such as ``gpt2`` or ``org/name``."""
    return NAME.fullmatch(place) is not None and not place.endswith((".json", ".model", ".txt"))


def hub_directory(name: str) -> Path:
    """A directory with the tokenizer files of a name.

    ``HF_HOME``, ``HF_TOKEN``, ``HF_HUB_OFFLINE`` and ``HF_ENDPOINT`` mean what they mean elsewhere.

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
    )

    where = f"{name}: no such file or directory here, and"
    try:
        return Path(huggingface_hub.snapshot_download(name, allow_patterns=list(FILES)))
    except GatedRepoError as error:
        raise JaxLMError(
            f"{where} the hub gives it only to those who were granted it; set HF_TOKEN"
        ) from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise JaxLMError(
            f"{where} no such name on the Hugging Face hub; mend it, or set HF_TOKEN if it is "
            "private"
        ) from error
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        offline = huggingface_hub.constants.HF_HUB_OFFLINE
        why = "HF_HUB_OFFLINE is set" if offline else "the hub cannot be reached"
        raise JaxLMError(
            f"{where} not in the hub cache either, while {why}; name a tokenizer that is here"
        ) from error

"""The configuration as it is kept and shown: whole, but for secrets in a SPEC."""

import re
from dataclasses import asdict
from typing import Any

from jax_lm.dataclass_json import to_json
from jax_lm.documents.files.locations import without_secrets
from jax_lm.documents.stores.mongodb_address import OWN_OPTIONS
from jax_lm.training.config import TrainConfig

LOGIN = re.compile(r"(?<=://)[^/\s@]*@")
OPTION = re.compile(r"([?&])([\w.-]+)=([^&\s]*)")
MONGODB = re.compile(r"mongodb(\+srv)?://")


def recorded(config: TrainConfig) -> dict[str, Any]:
    """A configuration as JSON values, without user names, passwords and keys of where data lies.

    A run started again from it asks the drivers for their own credentials, and what one start was
    allowed to change the next one is not.
    """
    values = to_json(config)
    values["allow_change"] = []
    for name in ("train", "validation"):
        specs = asdict(config.data)[name]
        values["data"][name] = [_without_secrets(spec) for spec in specs]
    return values


def _without_secrets(spec: str) -> str:
    if MONGODB.search(spec):  # the options of the driver may hold keys and passwords
        return OPTION.sub(
            lambda match: match[0] if match[2] in OWN_OPTIONS else f"{match[1]}{match[2]}=***",
            LOGIN.sub("", spec),
        )
    return without_secrets(spec) if "://" in spec else spec

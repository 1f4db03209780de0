"""``--config FILE``: a whole configuration as JSON or YAML."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from jax_lm.cli.arguments import take_value
from jax_lm.dataclass_json import from_json
from jax_lm.errors import JaxLMError
from jax_lm.training.config import TrainConfig


def read_config_file(default: TrainConfig, args: list[str]) -> tuple[TrainConfig, list[str]]:
    """The configuration ``--config FILE`` names, or ``default``, and the other arguments.

    Raises:
        JaxLMError: the file cannot be read.
        UsageError: a key is not known, or a value is of another type.
    """
    name, rest = take_value(args, "--config")
    if name is None:
        return default, rest
    return from_json(TrainConfig, _read(Path(name)), name), rest


class _Loader(yaml.SafeLoader):
    """YAML 1.2's floats: ``1e-3`` is a number, which YAML 1.1 reads as text."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def _read(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
        return json.loads(text) if path.suffix == ".json" else yaml.load(text, _Loader)
    except FileNotFoundError:
        raise JaxLMError(f"{path}: no such file; --config takes a JSON or YAML file") from None
    except (ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise JaxLMError(f"{path}: not valid JSON or YAML: {reason}") from error
